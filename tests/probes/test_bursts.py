"""Bursts through a real agent on the loopback: both directions at once, every end, and what is kept when one of them goes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import Any

import pytest

from linkqual import plan, profile
from linkqual.errors import HostError
from linkqual.model import Direction, Link, Measurement, Step
from linkqual.net.bursts import BurstEnd
from linkqual.probes import bursts
from linkqual.probes.bench import Bench, Progress
from linkqual.units import NS_PER_S

pytestmark = pytest.mark.loopback

LINK = Link(cir_bps=50_000_000, cir_reverse_bps=20_000_000, mtu=1500)
PROFILE = """
name: bursts
title: t
purpose: t
objectives: [{{metric: burst_completion, statistic: p99, direction: both, limit: none}}]
probes:
  bursts: {{{}}}
"""


def _step(settings: str, ip_version: int = 4, link: Link = LINK) -> Step:
    made = plan.make(profile.parse(PROFILE.format(settings), "test"), link, plan.PlanOptions(ip_version=ip_version))
    return made.steps[0]


def _run(far_end: Any, step: Step, **more: Any) -> Measurement:
    return bursts.measure(step, far_end.bench(**more))


@pytest.mark.parametrize("pattern", ["sync", "pipeline"])
def test_every_burst_of_both_directions_is_complete(far_end: Any, pattern: str) -> None:
    measured = _run(far_end, _step(f"pattern: {pattern}, count: 40, period: 10 ms, flows: 3"))
    assert measured.fault is None
    there, back = measured.bursts, measured.bursts_back
    assert there is not None
    assert back is not None
    assert (there.direction, back.direction) == (Direction.FORWARD, Direction.REVERSE)
    for one in (there, back):
        assert (one.sent, one.completed, one.lost, one.host_lost, one.stopped_by) == (40, 40, 0, 0, "count")
        assert (len(one.completions_ns), len(one.held_ns), len(one.lost_by_burst)) == (40, 40, 40)
        assert one.completion.n == 40
        assert one.base_rtt_ns is not None
        assert one.packets == 40 * one.burst_bytes // 1472
        pace_ns = one.transfer_ns * (1 - 1 / (one.burst_bytes // 1472))
        assert all(each is not None and each > 0.9 * pace_ns for each in one.completions_ns)
    assert there.burst_bytes > back.burst_bytes  # of the rate each way
    assert measured.conditions.near.drops == measured.conditions.far.drops == {"socket_drops": 0}
    assert far_end.told[-1].unit == "bursts"


def test_over_ipv6_with_a_period_from_the_round_trip_that_was_found(far_end_ipv6: Any) -> None:
    measured = _run(far_end_ipv6, _step("count: 10", 6, replace(LINK, rtt_budget_ns=NS_PER_S)))
    assert measured.fault is None
    assert measured.bursts is not None
    assert measured.bursts.completed == 10
    assert measured.bursts.burst_bytes % 1452 == 0
    assert measured.bursts.period_ns < NS_PER_S


def test_a_killed_agent_ends_them_and_both_directions_keep_what_was_measured(far_end: Any) -> None:
    killed: list[float] = []

    def kill(told: Progress) -> None:
        if told.done >= 20 and not killed:
            killed.append(time.monotonic())
            far_end.process.kill()

    measured = bursts.measure(_step("count: 10_000, patience: 20 s"), replace(far_end.bench(), progress=kill))
    assert time.monotonic() - killed[0] < 5
    assert measured.fault is not None
    assert measured.fault.kind == "peer-lost"
    for one in (measured.bursts, measured.bursts_back):
        assert one is not None
        assert 20 <= one.completed == one.sent < 10_000
        assert one.stopped_by == "peer-lost"


def test_an_interrupt_keeps_what_was_measured(far_end: Any) -> None:
    begun: list[float] = []

    def interrupted() -> bool:
        if far_end.told and far_end.told[-1].done >= 20:
            begun.append(time.monotonic())
        return bool(begun)

    measured = _run(far_end, _step("count: 10_000, patience: 20 s"), interrupted=interrupted)
    assert time.monotonic() - begun[0] < 5
    assert measured.fault is not None
    assert measured.fault.kind == "interrupted"
    for one in (measured.bursts, measured.bursts_back):
        assert one is not None
        assert 20 <= one.completed == one.sent < 10_000
        assert one.lost == 0


def test_a_process_of_this_end_that_dies_takes_nothing_measured_along(
    far_end: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[bursts.BurstEnd] = []

    def opened(role: str, config: bursts.BurstConfig) -> bursts.BurstEnd:
        ends.append(BurstEnd(role, config))
        return ends[-1]

    def kill(told: Progress) -> None:
        if told.done >= 20:
            os.kill(ends[0].pid, signal.SIGKILL)

    monkeypatch.setattr(bursts, "BurstEnd", opened)
    bench = replace(far_end.bench(), progress=kill)
    measured = bursts.measure(_step("count: 10_000, patience: 20 s"), bench)
    assert measured.fault is not None
    assert "burst-sender" in measured.fault.message
    for one in (measured.bursts, measured.bursts_back):
        assert one is not None
        assert 15 <= one.completed < 10_000
        assert one.lost == 0
    monkeypatch.undo()
    with monkeypatch.context() as broken:  # an end that cannot be opened here leaves nothing open there
        broken.setattr(bursts, "BurstEnd", _no_end)
        for _ in range(5):
            assert bursts.measure(_step("count: 10"), far_end.bench()).fault.message == "no socket"  # type: ignore[union-attr]
    assert bursts.measure(_step("count: 10"), far_end.bench()).fault is None


def _no_end(_role: str, _config: bursts.BurstConfig) -> bursts.BurstEnd:
    raise HostError("no socket", "none")


def test_what_is_over_the_agents_cap_is_refused_before_anything_leaves(capped_far_end: Any) -> None:
    measured = _run(capped_far_end, _step("count: 1000"))
    assert measured.fault is not None
    assert measured.fault.kind == "cap"
    assert "bytes" in measured.fault.message
    assert measured.bursts is None


def test_without_an_agent_nothing_is_sent() -> None:
    measured = bursts.measure(_step("count: 10"), Bench("127.0.0.1"))
    assert measured.fault is not None
    assert measured.fault.kind == "no-agent"
