"""A clock that is set is found in the packets; what a line does is never taken for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linkqual.model import ClockStep, Direction
from linkqual.records import ABSENT, Records
from linkqual.stats import delay, histogram, query
from linkqual.stats.clock_steps import ClockSteps
from linkqual.stats.levelling import Levelling, lowest
from linkqual.stats.summary import Summarizer, merge

from ..scenarios.streams import FORWARD, MS, REVERSE, summary
from ..scenarios.two_clocks import World

cheap = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
SIZES = st.floats(np.log(200_000), np.log(10e9)).map(lambda size: round(float(np.exp(size))))
WORLDS = st.builds(
    World,
    step_ns=st.builds(lambda size, sign: size * sign, SIZES, st.sampled_from([1, -1])),
    end=st.sampled_from(["near", "far"]),
    packets=st.just(6000),
    at=st.integers(1500, 4200),
    rate=st.sampled_from([200.0, 1000.0, 5000.0]),
    base_ns=st.sampled_from([0.05 * MS, 5.0 * MS, 40.0 * MS]),
    jitter_ns=st.floats(0, 40_000),
    slew=st.sampled_from([0.0, 2e-4]),
    drift=st.sampled_from([0.0, 3e-5, -1e-5]),
    offset_ns=st.sampled_from([0, 37 * MS, -86_400_000 * MS]),
    lost=st.sampled_from([0.0, 0.02]),
    seed=st.integers(0, 10**6),
)


def found(rows: Records, chunk: int = 10**9) -> tuple[ClockStep, ...]:
    steps = ClockSteps()
    for at in range(0, len(rows), chunk):
        part = rows[at : at + chunk]
        steps.add(part, delay.forward(part), delay.reverse(part))
    return steps.data()


@cheap
@given(WORLDS)
def test_a_step_is_found_where_it_is_and_as_large_as_it_is(world: World) -> None:
    slewed = 2 * world.slew * 1e9 * 32 * max(5e-3, 1 / world.rate)  # within two windows
    (step,) = found(world.records())
    assert step.step_ns == pytest.approx(world.relative_ns, abs=30_000 + world.jitter_ns + slewed, rel=1e-3)
    flight = (2 * world.base_ns + 10 * world.jitter_ns) * world.rate / 1e9
    doubt = 3 * flight + 4 * max(5e-3 * world.rate, 1) + 2  # and two points and a lost packet on either side
    assert world.at - doubt <= step.last_before <= world.at < step.first_after <= world.at + doubt


@cheap
@given(WORLDS, st.sampled_from([1, -1]))
def test_a_route_that_changes_by_as_much_in_one_direction_is_none(world: World, sign: int) -> None:
    assert (
        found(
            replace(world, step_ns=0, route_ns=float(sign * min(abs(world.step_ns), world.base_ns)), slew=0).records()
        )
        == ()
    )


@cheap
@given(
    st.sampled_from([10.0, 200.0, 1000.0]),
    st.sampled_from([2e4, 3e5, 3e6]),
    st.sampled_from([0.0, 5e-5, -5e-4]),
    st.integers(0, 10**6),
)
def test_drift_and_jitter_are_none(rate: float, jitter: float, drift: float, seed: int) -> None:
    assert found(World(rate=rate, jitter_ns=jitter, drift=drift, seed=seed).records()) == ()


def test_a_route_that_gets_longer_one_way_and_a_little_shorter_the_other_is_none() -> None:
    rows = World(at=0).records()
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        rows[name][2000:] += 3 * MS
    rows["received_ns"][2000:] -= 2 * MS
    assert found(rows) == ()


def test_queues_that_build_up_and_drain_are_none() -> None:
    """Forward loaded in the first half, reverse in the second: the offset seems to move, over as long as a queue takes."""
    world = World(at=0, base_ns=5.0 * MS)
    rows = world.records()
    ramp = np.clip((np.arange(4000) - 2000) / 40, -1, 1)  # 40 ms full, 40 ms empty
    forward, reverse = (np.round(40 * MS * np.clip(sign * ramp, 0, 1)).astype(np.int64) for sign in (-1, 1))
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        rows[name] += forward
    rows["received_ns"] += reverse
    assert found(rows) == ()


def test_how_the_stream_is_cut_changes_nothing() -> None:
    world = World(step_ns=-3 * MS, end="near", rate=5000.0, slew=1e-4)
    rows = world.records()
    whole = found(rows)
    assert len(whole) == 1
    assert all(found(rows, chunk) == whole for chunk in (1, 13, 997))


def test_memory_does_not_grow_with_the_run() -> None:
    steps, rows = ClockSteps(), World(rate=100.0).records()
    for _ in range(20):
        steps.add(rows, delay.forward(rows), delay.reverse(rows))
        rows["seq"] += 4000
        for name in ("sent_ns", "far_received_ns", "far_sent_ns", "received_ns"):
            rows[name] += 40 * 10**9
    assert len(steps._points) < 300
    assert steps.data() == ()


def test_several_steps_and_what_merges() -> None:
    first, second = (
        World(step_ns=48 * MS, packets=3000, at=1500),
        World(step_ns=-2 * MS, packets=3000, at=1500, offset_ns=48 * MS, seed=2),
    )
    rows = np.concatenate([first.records(), second.records()])
    rows["seq"] = np.arange(6000)
    for name in ("intended_ns", "sent_ns", "far_received_ns", "far_sent_ns", "received_ns"):
        rows[name][3000:] += 3_000_000_000
    for name in ("far_seq", "arrival"):
        rows[name][3000:] += 3000
    whole = summary(rows)
    assert [round(step.step_ns / MS) for step in whole.clock_steps] == [48, -2]
    assert merge(summary(rows[:3000]), summary(rows[3000:])).clock_steps == whole.clock_steps


# ---- what is made of it


def levelled(rows: Records) -> Levelling:
    steps = found(rows)
    columns = {each: delay.delays(rows, each) for each in Direction}
    return Levelling(steps, lowest=lowest([(rows, columns)], Levelling(steps)))


@pytest.mark.parametrize("step_ns", [48 * MS, -48 * MS, 300_000, -7_000_000_000])
@pytest.mark.parametrize("end", ["near", "far"])
def test_delay_variation_is_that_of_each_part_and_the_round_trip_that_of_the_line(step_ns: int, end: str) -> None:
    world = World(step_ns=step_ns, end=end, jitter_ns=30_000)
    rows, still = world.records(), summary(replace(world, step_ns=0).records())
    made = Summarizer(levelling=levelled(rows))
    for part in np.array_split(rows, 7):
        made.add(part)
    cut = made.summary()
    in_flight = round(10 * MS / 1e9 * world.rate) if end == "near" else 0
    assert abs(cut.crossed - in_flight) <= 1
    assert cut.round_trip_delay.n == still.round_trip_delay.n - cut.crossed
    assert cut.round_trip_delay.minimum >= still.round_trip_delay.minimum
    assert cut.round_trip_delay.maximum <= still.round_trip_delay.maximum
    assert cut.received == still.received
    for way in (FORWARD, REVERSE):
        for q in (0.5, 0.99, 1.0):
            mine, theirs = (histogram.quantile(query.distribution(one, "pdv", way), q) for one in (cut, still))
            assert mine == pytest.approx(theirs, abs=6_000)
            mine, theirs = (histogram.quantile(one.ipdv[way], q) for one in (cut, still))
            assert mine == pytest.approx(theirs, abs=6_000)
        lows = [getattr(segment, f"{way}_delay").minimum for segment in cut.segments]
        moved = world.relative_ns if way is FORWARD else -world.relative_ns
        assert lows[1] - lows[0] == pytest.approx(moved, abs=6_000)
    on_the_way = (
        round(world.base_ns / 1e9 * world.rate) if end == "far" else 0
    )  # reached a clock that was set meanwhile
    assert cut.segments[1].forward_delay.n == pytest.approx(world.packets - world.at + on_the_way, abs=2)


def test_negative_delays_are_kept() -> None:
    made = summary(World(step_ns=-48 * MS).records())
    assert made.forward_delay.minimum < -42 * MS
    assert histogram.quantile(made.forward_delay, 0.25) < -42 * MS


def test_packets_without_a_way_back_go_to_their_own_part() -> None:
    world = World(step_ns=48 * MS)
    rows = world.records()
    rows["received_ns"][::3] = ABSENT
    rows["fate"][::3] = 2
    cut = Summarizer(levelling=levelled(rows))
    cut.add(rows)
    made = cut.summary()
    assert made.crossed == 0
    assert sum(segment.forward_delay.n for segment in made.segments) == 4000
    assert made.segments[0].forward_delay.maximum < 10 * MS < 48 * MS < made.segments[1].forward_delay.minimum
