"""Steps that explain a load are carried out only where one fell short."""

from __future__ import annotations

import pytest

from linkqual.model import Direction, Fault, Link, Measurement, Objective, Plan, Relation, Step, ThroughputResult
from linkqual.rules.short import not_needed

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
ALLOWED = 94e6


def asked(direction: Direction, limit: float | None = 90e6) -> Objective:
    return Objective("throughput", "p5", direction, limit, Relation.AT_LEAST)


def load(direction: Direction, bps: float, streams: int = 4, seconds: int = 60, slow: int = 0) -> Measurement:
    step = Step(f"throughput/{direction}/{streams}", "throughput", {"streams": streams, "judged": streams == 4}, direction)  # fmt: skip
    rates = (bps / 2,) * slow + (bps,) * (seconds - slow)
    return Measurement(step, 0, 1, throughput=ThroughputResult(streams, rates, allowed_bps=ALLOWED))


def plan(*objectives: Objective) -> Plan:
    return Plan("p", (), objectives, Link(cir_bps=10**8, mtu=1500))


def why(direction: Direction, when: str = "short") -> Step:
    return Step(f"trains/{direction}", "trains", {"when": when}, direction)


BOTH = plan(asked(FORWARD), asked(REVERSE))
GOOD = [load(FORWARD, 94e6), load(REVERSE, 94e6), load(FORWARD, 94e6, 1), load(REVERSE, 94e6, 1)]


def test_a_good_line_is_spared() -> None:
    assert "the forward goodput did not fall short" in not_needed(why(FORWARD), BOTH, GOOD)
    assert "the forward and reverse goodput did not" in not_needed(why(Direction.ROUND_TRIP), BOTH, GOOD)
    assert not not_needed(why(FORWARD, "always"), BOTH, GOOD)
    assert not not_needed(Step("stamp", "stamp"), BOTH, GOOD)


@pytest.mark.parametrize(
    "taken",
    [
        [load(FORWARD, 60e6), load(REVERSE, 94e6)],  # refuted
        [load(FORWARD, 94e6, seconds=10), load(REVERSE, 94e6)],  # open: too few seconds
        [load(FORWARD, 94e6, slow=4), load(REVERSE, 94e6)],
        [load(FORWARD, 94e6), load(REVERSE, 94e6), load(FORWARD, 40e6, 1)],  # one stream alone is slow
        [Measurement(load(FORWARD, 0).step, 0, 1, fault=Fault("missing-program", "no iperf3")), load(REVERSE, 94e6)],
        [load(REVERSE, 94e6)],  # not measured at all
    ],
)
def test_the_direction_that_fell_short_is_explained_and_the_other_not(taken: list[Measurement]) -> None:
    assert not not_needed(why(FORWARD), BOTH, taken)
    assert not not_needed(why(Direction.ROUND_TRIP), BOTH, taken)
    assert not_needed(why(REVERSE), BOTH, taken)


def test_without_a_limit_what_the_headers_allow_is_asked() -> None:
    shown = plan(asked(FORWARD, None))
    assert not not_needed(why(FORWARD), shown, [load(FORWARD, 80e6)])
    assert not_needed(why(FORWARD), shown, [load(FORWARD, 93e6)])
