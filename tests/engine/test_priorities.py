from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from linkqual.net import clock


def policy_after(prepare: Callable[[], object]) -> int:
    """The scheduling policy of a child that prepared and then asked to be prompt."""
    child = os.fork()
    if child == 0:
        try:
            prepare()
            clock.go_prompt()
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
