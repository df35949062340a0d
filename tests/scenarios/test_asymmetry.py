"""A8 and what stands beside it: two ways of different length, as far as clocks let it be known; loss, variation and rate of both directions."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from linkqual import plan as planner
from linkqual import profile, rules
from linkqual.errors import InputError
from linkqual.model import (
    Conditions,
    EndConditions,
    Hop,
    Link,
    Measurement,
    Objective,
    Outcome,
    PathResult,
    Plan,
    Step,
    Summary,
    Trace,
    Verdict,
)
from linkqual.rules import clocks, directions
from linkqual.session import compared
from linkqual.session.symmetry import compare
from linkqual.stats.tally import tally

from ..rules.seeded_lines import tcp
from .streams import (
    FORWARD,
    MS,
    REVERSE,
    ROUND_TRIP,
    Truth,
    goodput,
    one,
    records,
    said,
    spread,
    stamp,
    steady,
    summary,
)

NEAR, FAR = "198.51.100.1", "203.0.113.2"
ROUTES = Objective("path_symmetry", "own", ROUND_TRIP, 0, limit_text="symmetric")
DELAYS = Objective("delay_symmetry", "difference", ROUND_TRIP, 2.0 * MS)


def trace(source: str, destination: str, routers: list[str], egress: list[str]) -> Trace:
    told = egress or [None] * len(routers)
    hops = [
        Hop(ttl, address, egress=out) for ttl, (address, out) in enumerate(zip(routers, told, strict=True), start=1)
    ]
    return Trace(source, destination, 40001, 4863, (*hops, Hop(len(hops) + 1, destination, reached=True)))


def path(
    forward: list[str], reverse: list[str], sent: list[str] | None = None, returned: list[str] | None = None
) -> Measurement:
    """Two traces of one flow, each in the order its packets meet the routers; and by Record Route where these sent them onward."""
    there, back = trace(NEAR, FAR, forward, sent or []), trace(FAR, NEAR, reverse, returned or [])
    found = compare(there, back)
    result = PathResult(there, back, found.verdict, found.because, found.pairs, compared.measured(there, back))
    return Measurement(Step("path", "path"), 0, 1, path=result)


def ways(forward: int, reverse: int) -> Measurement:
    """Both over a router beside each end; the others are others."""
    there = [f"10.1.{k}.2" for k in range(forward - 2)]
    back = [f"10.2.{k}.2" for k in range(reverse - 2)]
    return path(["198.51.100.2", *there, "10.9.0.2"], ["203.0.113.1", *back, "10.9.1.1"])


@cache
def counted(forward: float, reverse: float, offset: float = 0) -> Summary:
    curves = [((0, way * MS), (0.5, (way + 0.05) * MS), (1, (way + 0.3) * MS)) for way in (forward, reverse)]
    return summary(records(Truth(4000, 1000, *curves, offset_ns=round(offset * MS))))


def judged(*taken: Measurement, lines: tuple[Objective, ...] = (ROUTES, DELAYS), link: Link | None = None) -> Verdict:
    return rules.judge(Plan("of mine", (), lines, link or Link()), taken)


def asked(forward: float, reverse: float, error: float | None, offset: float = 0, link: Link | None = None) -> Verdict:
    conditions = Conditions(clock_error_ns=None if error is None else round(error * MS))
    return judged(ways(7, 12), stamp(counted(forward, reverse, offset), 1000, conditions), link=link)


@pytest.mark.parametrize(
    ("forward", "reverse", "hops", "error", "apart"),
    [(4.1, 9.8, (7, 12), 0.2, "-5.7 ms"), (21.4, 12.3, (14, 9), 0.9, "9.1 ms"), (3.2, 6.9, (5, 6), 0.05, "-3.7 ms")],
)
def test_a8_other_routers_and_a_difference_far_above_the_clocks_fail(
    forward: float, reverse: float, hops: tuple[int, int], error: float, apart: str
) -> None:
    conditions = Conditions(clock_error_ns=round(error * MS))
    verdict = judged(ways(*hops), stamp(counted(forward, reverse), 1000, conditions))
    routes, delays = one(verdict, ROUTES.key), one(verdict, DELAYS.key)
    assert (verdict.outcome, routes.outcome, delays.outcome) == (Outcome.FAIL,) * 3
    assert f"forward crosses {hops[0]} routers, the return {hops[1]}" in routes.because
    assert "forward only: 10.1.0.2" in routes.because
    assert "return only: " in routes.because
    assert f"forward less reverse: {apart} ± " in delays.because
    longer = "reverse" if reverse > forward else "forward"
    assert f"asymmetric: {longer} is longer by" in delays.because
    assert delays.estimate is not None
    assert delays.estimate.low == pytest.approx((abs(forward - reverse) - 2 * error) * MS, rel=1e-3)
    assert any(note.weight == "warn" and f"{longer} is longer by" in note.sentence for note in verdict.notes)


def test_a8_with_clocks_that_may_feign_it_the_routes_differ_still_and_the_delay_is_open() -> None:
    verdict = asked(4.1, 9.8, 8)
    assert one(verdict, ROUTES.key).outcome is Outcome.FAIL
    delays = one(verdict, DELAYS.key)
    assert delays.outcome is Outcome.INCONCLUSIVE
    assert "-5.7 ms ± 16 ms by the clocks, undetermined" in delays.because
    assert "PTP" in delays.decide
    assert not any("is longer" in note.sentence for note in verdict.notes)


def test_a8_routers_that_answer_from_other_addresses_are_no_difference() -> None:
    """One way there and back: each router shows the address of the side that is asked."""
    verdict = judged(
        path(
            ["198.51.100.2", "10.3.0.2"], ["203.0.113.1", "10.3.0.1"],
            ["10.3.0.1", "203.0.113.1"], ["10.3.0.2", "198.51.100.2"],
        ),
        stamp(counted(4.1, 4.4), 1000, Conditions(clock_error_ns=200_000)),
    )  # fmt: skip
    assert [finding.outcome for finding in verdict.findings] == [Outcome.PASS, Outcome.PASS]
    assert "both directions cross the same 2 routers" in one(verdict, ROUTES.key).because


def test_what_cannot_be_told_is_inconclusive_and_says_what_would_tell() -> None:
    silent = path(["198.51.100.2", "10.3.0.2", "10.3.1.2"], ["203.0.113.1", "10.3.1.1", "10.3.0.1"])
    verdict = judged(silent, lines=(ROUTES,))
    found = one(verdict, ROUTES.key)
    assert (verdict.outcome, found.outcome) == (Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE)
    assert "Record Route" in found.decide
    assert one(judged(lines=(ROUTES,)), ROUTES.key).outcome is Outcome.NO_DATA


@pytest.mark.parametrize("offset", [0, 2.8])
def test_without_a_bound_of_the_clocks_the_delay_is_always_open(offset: float) -> None:
    verdict = asked(4.1, 9.8, None, offset)
    assert one(verdict, DELAYS.key).outcome is Outcome.INCONCLUSIVE
    assert "is longer" not in said(verdict)


def test_the_length_of_the_fibre_bounds_the_difference_without_clocks() -> None:
    alike = replace(DELAYS, limit=1.0 * MS)
    plan = Plan("of mine", (), (alike,), Link(fibre_km=1000))
    taken = stamp(counted(5.1, 5.3, 40), 1000, Conditions())
    (found,) = rules.judge(plan, (taken,)).findings
    assert found.outcome is Outcome.PASS
    assert "by the length of the fibre" in found.because
    (open_,) = rules.judge(replace(plan, link=Link(fibre_km=800)), (taken,)).findings
    assert open_.outcome is Outcome.INCONCLUSIVE


def test_clocks_whose_words_the_packets_contradict_say_nothing() -> None:
    verdict = asked(4.1, 9.8, 0.2, offset=-6)  # forward arrives before it left, by more than both clocks admit
    found = one(verdict, DELAYS.key)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "further than they claim" in found.because


# ---- rate, loss, variation


def words(*taken: Measurement, link: Link | None = None) -> dict[str, tuple[str, str]]:
    return {each.what: (each.word, each.settle) for each in directions.of(link or Link(), taken)}


@pytest.mark.parametrize(
    ("forward", "reverse", "word"),
    [(94e6, 93e6, "symmetric"), (94e6, 86.9e6, "minor"), (60e6, 94e6, "asymmetric"), (94e6, 89.3e6, "undetermined")],
)
def test_the_weaker_rate_as_a_share_of_the_stronger_one(forward: float, reverse: float, word: str) -> None:
    taken = [
        goodput(way, steady(bps, 65, seed=k, ripple=0.004))
        for k, (way, bps) in enumerate(((FORWARD, forward), (REVERSE, reverse)))
    ]
    found = words(*taken)["goodput"]
    assert found[0] == word
    assert bool(found[1]) is (word == "undetermined")
    agreed = Link(cir_bps=round(forward), cir_reverse_bps=round(reverse))
    assert words(*taken, link=agreed)["goodput"][0] == "symmetric"


def test_a_rate_that_a_window_holds_down_is_no_asymmetry_of_the_line() -> None:
    link = Link(cir_bps=10**9, mtu=1500)
    slow = tcp(4, 5e8, Random(1), rtt=0.012, window=187_500, seconds=65, allowed=941e6)
    slow = replace(slow, step=replace(slow.step, direction=REVERSE))
    taken = [goodput(FORWARD, steady(935e6, 65), allowed_bps=941e6), slow]
    line = Objective("rate_symmetry", "factor", ROUND_TRIP, 1.5)
    verdict = judged(*taken, lines=(line,), link=link)
    cause = next(one for one in verdict.diagnoses if one.direction is REVERSE)
    assert cause.cause == "window"
    found = one(verdict, line.key)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert cause.sentence in found.because
    assert found.decide == cause.decide
    beside = {each.what: each for each in directions.of(link, taken, verdict.diagnoses)}["goodput"]
    assert (beside.word, beside.settle) == ("undetermined", cause.decide)
    assert not any("goodput" in note.sentence and note.weight == "warn" for note in verdict.notes)


def test_a_rate_that_a_host_holds_down_is_no_asymmetry() -> None:
    taken = [goodput(FORWARD, steady(94e6, 65)), goodput(REVERSE, steady(60e6, 65), cpu_near=0.99, version="3.12")]
    word, settle = words(*taken)["goodput"]
    assert word == "undetermined"
    assert "more cores" in settle


@pytest.mark.parametrize(
    ("forward", "reverse", "word"),
    [
        (spread(64, 40_000), spread(21, 40_000), "asymmetric"),
        (spread(20, 40_000), spread(12, 40_000), "undetermined"),
        (spread(4, 40_000), (), "undetermined"),
        ((), (), "symmetric"),
        (spread(900, 40_000), spread(800, 40_000), "symmetric"),
        (tuple(range(1000, 1080)), spread(2, 40_000), "undetermined"),  # eighty in one burst are one event
    ],
)
def test_loss_of_both_directions_by_events(forward: tuple[int, ...], reverse: tuple[int, ...], word: str) -> None:
    taken = stamp(summary(records(Truth(40_000, 1000, lost_forward=forward, lost_reverse=reverse)), gap=10), 1000)
    assert words(taken)["loss"][0] == word


def test_loss_that_a_host_may_have_made_is_no_asymmetry() -> None:
    made = summary(records(Truth(40_000, 1000, lost_forward=spread(60, 40_000))))
    assert words(stamp(made, 1000))["loss"][0] == "asymmetric"
    full = Conditions(same_clock=True, far=EndConditions(drops={"softnet_dropped": 70}))
    assert words(stamp(made, 1000, full))["loss"][0] == "undetermined"


def test_losses_of_unknown_direction_make_nothing_alike() -> None:
    made = summary(
        records(Truth(40_000, 1000, lost_forward=spread(900, 40_000), lost_reverse=spread(800, 40_000))), gap=10
    )
    assert words(stamp(made, 1000))["loss"][0] == "symmetric"
    word, settle = words(stamp(replace(made, lost=400), 1000))["loss"]
    assert word == "undetermined"
    assert "our agent" in settle


@pytest.mark.parametrize(("more", "word"), [(3.0, "asymmetric"), (0.9, "symmetric")])
def test_delay_variation_of_both_directions(more: float, word: str) -> None:
    rough = ((0, 5 * MS), (0.5, 5.1 * MS), (1, (5 + 1.2 * more) * MS))
    made = summary(records(Truth(8000, 1000, reverse=rough)))
    assert words(stamp(made, 1000))["delay variation"][0] == word


def test_delay_variation_that_clocks_may_feign_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    rough = ((0, 5 * MS), (0.5, 5.1 * MS), (1, 8.6 * MS))
    taken = stamp(summary(records(Truth(8000, 1000, reverse=rough))), 1000)
    assert words(taken)["delay variation"][0] == "asymmetric"
    monkeypatch.setattr(clocks, "added_ns", lambda *_: 4 * MS)
    word, settle = words(taken)["delay variation"]
    assert word == "undetermined"
    assert "clocks" in settle


def test_unlike_numbers_of_packets_each_way_count_in_the_ratio_of_losses() -> None:
    few, many = (tally([k % (n // 10) == 5 for k in range(n)]) for n in (1000, 4000))
    found = directions._ratio(few, many)
    assert found is not None
    value, least, most = found
    assert value == pytest.approx(4)
    assert least is not None
    assert most is not None
    assert 1 < least < 4 < most


def test_both_at_once_below_each_alone_is_shared_or_the_hosts() -> None:
    alone = [goodput(way, steady(94e6, 65)) for way in (FORWARD, REVERSE)]
    for bps, cpu, word in ((93e6, 0.2, "symmetric"), (60e6, 0.2, "shared"), (60e6, 0.98, "host")):
        made = goodput(ROUND_TRIP, steady(bps, 5), cpu_near=cpu, version="3.12")
        assert made.throughput is not None
        both = replace(made, throughput_back=replace(made.throughput, receiver_bps=tuple(steady(bps, 5, seed=2))))
        found = words(*alone, both)["both at once"]
        assert found[0] == word
        assert bool(found[1]) is (word != "symmetric")
    made = goodput(ROUND_TRIP, [60e6, 95e6, 61e6, 60e6, 60e6])  # a second as good as alone: five do not tell
    assert made.throughput is not None
    assert words(*alone, replace(made, throughput_back=made.throughput))["both at once"][0] == "undetermined"


def test_few_seconds_make_no_rates_alike() -> None:
    alone = [goodput(way, steady(94e6, 65)) for way in (FORWARD, REVERSE)]
    together = goodput(ROUND_TRIP, [93e6] * 3)
    word, settle = words(*alone, replace(together, throughput_back=together.throughput))["both at once"]
    assert word == "undetermined"
    assert "longer load" in settle
    assert words(*(goodput(way, [94e6] * 3) for way in (FORWARD, REVERSE)))["goodput"][0] == "undetermined"
    none = words(*(goodput(way, [0.0] * 65) for way in (FORWARD, REVERSE)))["goodput"]
    assert none == ("undetermined", "")


def test_a_profile_may_ask_for_symmetric_routes() -> None:
    text = """
name: both-ways
objectives:
  - {metric: path_symmetry, limit: symmetric, source: the contract}
  - {metric: delay_symmetry, limit: 0.1 x rtt_budget, source: the contract}
probes: {path: , stamp: }
"""
    asked = profile.parse(text, "both-ways.yaml")
    assert [one.key for one in asked.objectives] == [ROUTES.key, DELAYS.key]
    plan = planner.make(asked, Link(rtt_budget_ns=20 * MS))
    assert [(one.limit, one.limit_text) for one in plan.objectives] == [
        (0, "symmetric"),
        (2.0 * MS, "0.1 x rtt_budget"),
    ]
    verdict = rules.judge(plan, (ways(7, 12), stamp(counted(4.1, 9.8), 1000)))
    assert [finding.outcome for finding in verdict.findings] == [Outcome.FAIL, Outcome.FAIL]
    with pytest.raises(InputError, match="the same or they are not"):
        profile.parse(text.replace("limit: symmetric", "limit: 1"), "x.yaml")
