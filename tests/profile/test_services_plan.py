"""What an activation and a benchmark would send: said beforehand, bounded, and refused where it must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from linkqual import profiles as shipped
from linkqual.agent.config import Caps
from linkqual.errors import InputError, UsageError
from linkqual.model import Direction, Link, Plan, Service, Step
from linkqual.plan import PlanOptions, make, red_lines
from linkqual.plan.services import rounds_of
from linkqual.probes import beside
from linkqual.profile import parse
from linkqual.session import activation
from linkqual.session.activation import Rung
from linkqual.stats.confidence import trials_to_prove
from linkqual.units import NS_PER_S

ACTIVATION, BENCHMARK = (parse(shipped.text(name), name) for name in ("activation", "benchmark"))
DATA = Service(
    "data",
    80_000_000,
    cir_reverse_bps=40_000_000,
    eir_bps=40_000_000,
    counts="l2",
    sizes=((46, 3), (1500, 1)),
    dscp=18,
    flr=1e-4,
)
VOICE = Service("voice", 1_000_000, eir_bps=100_000, sizes=((200, 1),))
LINK = Link(cir_bps=200_000_000, mtu=1500, services=(DATA, VOICE), in_service=False)


def plan(link: Link = LINK, **options: Any) -> Plan:
    return make(ACTIVATION, link, PlanOptions(skip=("path",), **options))


def rungs(step: Step, service: str) -> list[Rung]:
    return [rung for together in rounds_of(step) for rung in together if rung.service == service]


def offered(rung: Rung, service: Service) -> float:
    """Load and stream, as the service counts them."""
    return activation.counted_bps(rung.load_bps, rung.sizes, rung.stream.ip_bps, rung.stream.ip_bytes, service.counts)


def test_load_and_stream_together_are_what_the_standard_asks() -> None:
    forward, reverse, full = plan().steps
    asked = [offered(rung, DATA) for rung in rungs(forward, "data")]
    assert asked == pytest.approx([20e6, 40e6, 60e6, 80e6, 120e6, 80e6 + 1.25 * 40e6], rel=1e-6)
    assert [rung.kind for rung in rungs(forward, "data")] == ["cir"] * 4 + ["eir", "overshoot"]
    assert offered(rungs(reverse, "data")[-1], DATA) == pytest.approx(40e6 + 1.25 * 40e6, rel=1e-6)
    assert offered(rungs(forward, "voice")[-1], VOICE) == pytest.approx(
        1.25 * 1.1e6, rel=1e-5
    )  # an EIR under a fifth of the CIR
    (together,) = rounds_of(full)
    assert len(together) == 4
    assert {rung.kind for rung in together} == {"performance"}
    assert rungs(forward, "voice")[0].stream.ip_bps < 0.06 * 1e6  # a twentieth of the CIR at most


def test_what_one_core_cannot_send_singly_leaves_in_trains() -> None:
    fast = plan(Link(cir_bps=2_000_000_000, mtu=1500)).steps[0]
    assert [rung.phase.segmented for rung in rungs(fast, "line")] == [
        True,
        True,
        False,
        False,
        False,
    ]  # 500, 1000, 1500 Mbit/s ...
    assert all(rung.phase.segmented for rung in rungs(plan().steps[0], "data"))


def test_bytes_and_peak_are_those_of_what_is_sent() -> None:
    forward, _, full = plan().steps
    loads = sum(rung.load_bps * rung.duration_ns / NS_PER_S / 8 for together in rounds_of(forward) for rung in together)
    streams = sum(
        rung.stream.ip_bps * rung.duration_ns / NS_PER_S / 8 for together in rounds_of(forward) for rung in together
    )
    assert forward.total_bytes == pytest.approx(loads + 2 * streams, rel=1e-6)  # the stream goes there and back
    assert forward.offered_bps == max(rung.ip_bps for together in rounds_of(forward) for rung in together)
    assert full.offered_bps == sum(rung.ip_bps for rung in rounds_of(full)[0] if rung.direction is Direction.FORWARD)


def test_auto_steps_are_as_long_as_the_proof_takes() -> None:
    forward = plan().steps[0]
    frames = trials_to_prove(1e-4, 0, 0.95)
    for rung in rungs(forward, "data")[:4]:
        sent = rung.load_bps * rung.duration_ns / NS_PER_S / (8 * rung.phase.mean_bytes)
        assert rung.duration_ns == 10 * NS_PER_S or frames <= sent < 1.3 * frames
    slow = replace(LINK, services=(replace(VOICE, flr=1e-6),))
    (cut,) = {rung.duration_ns for rung in rungs(plan(slow).steps[0], "voice")[:4]}
    assert cut == 3600 * NS_PER_S
    assert any("no step lasts longer" in reason for reason in plan(slow).reasons)


def test_steps_of_a_given_length_say_what_they_leave_open() -> None:
    short = parse(shipped.text("activation").replace("step: auto ", "step: 10 s "), "p")
    strict = replace(LINK, services=(replace(DATA, flr=1e-6),))
    reasons = make(short, strict, PlanOptions()).reasons
    assert any("2,995,731 frames without a loss" in reason and "step: auto" in reason for reason in reasons)


def test_what_may_not_be_sent_is_left_out_and_said() -> None:
    capped = plan(max_rate_bps=60_000_000)
    assert [step.key for step in capped.steps] == ["services/configuration/forward", "services/configuration/reverse"]
    assert all(step.offered_bps <= 60_000_000 for step in capped.steps)
    assert any("left out, as --max-rate allows" in reason and "data CIR 100 %" in reason for reason in capped.reasons)
    idle = plan(duty=0.1)
    assert all("performance" not in step.key for step in idle.steps)


def test_the_length_of_the_performance_test_is_the_callers_and_gives_bytes_first() -> None:
    longer = plan(duration_ns=2 * 3600 * NS_PER_S)
    assert rounds_of(longer.steps[-1])[0][0].duration_ns == 2 * 3600 * NS_PER_S
    room = sum(step.total_bytes for step in longer.steps[:2]) + 2 * 10**9
    less = plan(duration_ns=2 * 3600 * NS_PER_S, max_bytes=room)
    assert less.total_bytes <= room
    assert 60 * NS_PER_S <= rounds_of(less.steps[-1])[0][0].duration_ns < 2 * 3600 * NS_PER_S
    assert less.steps[:2] == longer.steps[:2]


def test_a_day_of_performance_test_is_within_what_an_agent_allows_unasked() -> None:
    day = plan(duration_ns=24 * 3600 * NS_PER_S).steps[-1]
    assert day.duration_ns / NS_PER_S + beside.MARGIN_S <= Caps().max_seconds  # what its stream asks for


def test_what_cannot_be_known_is_refused() -> None:
    with pytest.raises(UsageError, match="what the services carry is not known"):
        plan(Link())
    with pytest.raises(InputError, match="no room for the load over IPv6"):
        plan(ip_version=6)


def test_without_services_the_line_is_one() -> None:
    whole = plan(Link(cir_bps=50_000_000, cir_reverse_bps=20_000_000, mtu=9000))
    assert {rung.sizes for rung in rungs(whole.steps[0], "line")} == {((9000, 1),)}
    assert [one.key for one in red_lines(ACTIVATION, Link())] == [
        one.key for one in ACTIVATION.objectives
    ]  # judging refuses nothing


@pytest.mark.parametrize("in_service", [None, True])
def test_a_search_needs_a_line_out_of_service(in_service: bool | None) -> None:
    line = Link(cir_bps=10**9, in_service=in_service)
    with pytest.raises(UsageError, match="RFC 6815") as caught:
        make(BENCHMARK, line)
    assert "in_service: false" in caught.value.hint
    assert red_lines(BENCHMARK, line)[0].limit == 0.99e9


def test_a_search_begins_at_what_is_possible() -> None:
    line = Link(cir_bps=10**9, cir_reverse_bps=10**8, mtu=1500, in_service=False)
    forward, reverse = make(BENCHMARK, line).steps
    assert forward.params["sizes"][0] == [46, int(10**9 * 46 / 84)]
    assert forward.params["sizes"][-1] == [1500, int(10**9 * 1500 / 1538)]  # 1518 octets and the MTU are one size
    assert reverse.params["sizes"][0] == [46, int(10**8 * 46 / 84)]
    capped = make(BENCHMARK, line, PlanOptions(max_rate_bps=3 * 10**8)).steps[0]
    assert capped.offered_bps == 3 * 10**8
    six = make(BENCHMARK, line, PlanOptions(ip_version=6))
    assert six.steps[0].params["sizes"][0][0] == 110
    assert any("64 octets do not fit" in reason for reason in six.reasons)


def test_services_that_ask_for_more_than_the_line_get_one_remark() -> None:
    def remarks(line: Link) -> list[str]:
        return [reason for reason in plan(line).reasons if "contracted rate" in reason]

    assert remarks(LINK) == []
    assert (
        remarks(Link(cir_bps=200_000_000)) == []
    )  # the line as one service: its overshoot is asked for, and no service's rate
    (said,) = remarks(replace(LINK, cir_bps=100_000_000, rate_counts="l2"))
    assert "data forward CIR + EIR 120 Mbit/s of 100 Mbit/s" in said
    assert "reverse" not in said  # 80 of 100
    (said,) = remarks(replace(LINK, cir_bps=125_000_000))  # 120 counted at l2 are more with preamble and gap
    assert "data forward CIR + EIR" in said
    assert remarks(replace(LINK, cir_bps=125_000_000, rate_counts="l2")) == []
    exact = Service("one", 90_000_000, eir_bps=10_000_000, sizes=((46, 3), (1500, 1)))
    assert remarks(Link(cir_bps=100_000_000, services=(exact,))) == []
    twice = tuple(Service(name, 60_000_000, sizes=((1500, 1),)) for name in "ab")
    (said,) = remarks(Link(cir_bps=100_000_000, services=twice))
    assert "all CIRs forward 120 Mbit/s" in said
    assert "all CIRs reverse 120 Mbit/s" in said
