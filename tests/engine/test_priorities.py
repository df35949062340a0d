from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from linkqual.net import clock


def policy_after(prepare: Callable[[], object], ask: Callable[[], object] = clock.go_prompt) -> int:
    """The scheduling policy of a child that prepared and then asked to be prompt, or as `ask` does."""
    child = os.fork()
    if child == 0:
        try:
            prepare()
            ask()
            os._exit(os.sched_getscheduler(0))
        except PermissionError:
            os._exit(99)
        finally:
            os._exit(98)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_process_asks_to_be_prompt_without_any_right() -> None:
    assert policy_after(lambda: None) == os.SCHED_OTHER


def test_real_time_that_was_given_is_kept() -> None:
    policy = policy_after(lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))
    if policy == 99:
        pytest.skip("no right to real time here")
    assert policy == os.SCHED_RR


def raised_and_lowered() -> None:
    clock.go_on_time(8_000)
    if os.sched_getscheduler(0) != os.SCHED_FIFO:
        os._exit(99)
    clock.go_on_time(800_000)


def test_a_light_sender_is_real_time_and_a_heavy_one_is_not() -> None:
    if not clock.realtime_allowed():
        pytest.skip("no right to real time here")
    assert policy_after(lambda: None, lambda: clock.go_on_time(8_000)) == os.SCHED_FIFO
    assert policy_after(lambda: None, raised_and_lowered) == os.SCHED_OTHER


def test_a_heavy_sender_keeps_the_real_time_it_was_given() -> None:
    policy = policy_after(
        lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)), lambda: clock.go_on_time(800_000)
    )
    if policy == 99:
        pytest.skip("no right to real time here")
    assert policy == os.SCHED_RR
