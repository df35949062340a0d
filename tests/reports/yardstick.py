"""A contracted line and a yardstick of the kind `training` is."""

from __future__ import annotations

from linkqual import model as m
from linkqual.model import Relation

from .measured import FORWARD, REVERSE, ROUND_TRIP
from .traffic import MS

LINK = m.Link(
    name="FRA–ZRH wave 7",
    vendor="Example Carrier AG",
    cir_bps=10_000_000_000,
    mtu=9000,
    rtt_budget_ns=12 * MS,
    near="fra1-gw",
    far="zrh4-gw",
)


def objectives(link: m.Link) -> tuple[m.Objective, ...]:
    """A yardstick of the kind `training` is."""
    budget = link.rtt_budget_ns
    goodput = None if link.cir_bps is None else link.cir_bps * 0.9885 * 0.95
    one_way = "half of the round trip budget"
    flr = "MEF 23.2 CPO, performance tier 1, label H: FLR ≤ 1e-5"
    pdv = "RDMA reordering window of 1 ms at 10 Gbit/s; evaluated as RFC 5481 section 6.5"
    rate = "contract, schedule B 2.1: 95 % of the goodput the headers allow at the contracted rate"
    return (
        m.Objective("loss_ratio", "ratio", FORWARD, 1e-5, source=flr, limit_text="1e-5"),
        m.Objective("loss_ratio", "ratio", REVERSE, 1e-5, source=flr, limit_text="1e-5"),
        m.Objective(
            "round_trip_delay", "p99", ROUND_TRIP, budget, source="contract: round trip budget", limit_text="rtt_budget"
        ),
        m.Objective("pdv", "p99.9", FORWARD, 1 * MS, source=pdv, limit_text="1 ms"),
        m.Objective("pdv", "p99.9", REVERSE, 1 * MS, source=pdv, limit_text="1 ms"),
        m.Objective(
            "throughput", "p10", FORWARD, goodput, Relation.AT_LEAST, source=rate, limit_text="95 % of goodput"
        ),
        m.Objective(
            "throughput", "p10", REVERSE, goodput, Relation.AT_LEAST, source=rate, limit_text="95 % of goodput"
        ),
        m.Objective(
            "one_way_delay",
            "p99",
            FORWARD,
            None if budget is None else budget / 2,
            required=False,
            source=one_way,
            limit_text="rtt_budget / 2",
        ),
        m.Objective(
            "reordered_ratio",
            "ratio",
            FORWARD,
            1e-4,
            required=False,
            source="ITU-T Y.1540 appendix: RoCE treats reordering as loss",
            limit_text="1e-4",
        ),
    )


def profile(link: m.Link) -> m.Profile:
    return m.Profile(
        name="training",
        title="Training across sites",
        purpose="Gradient exchange between two sites: little loss, a steady round trip, the contracted rate in both directions.",
        objectives=objectives(link),
        probes={
            "stamp": {"rate": "20 kpps", "packets": 2_000_000, "packet": "128 B", "timeout": "1 s"},
            "ping": {"count": 50},
            "throughput": {"streams": [1, 8], "seconds": 20},
            "path": {},
        },
        file="linkqual.profiles/training.yaml",
        notes=("A red line of loss counts packets of at most 128 B: longer ones meet more bit errors.",),
    )
