"""Clocks, precise sleep and the scheduling of this process (Linux).

Instants on the wire and in records are UTC; pacing and timeouts are monotonic, so that a step of the wall clock moves neither.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import time

from linkqual.errors import HostError
from linkqual.units import NS_PER_S

_libc = ctypes.CDLL(None, use_errno=True)

_CLOCK_MONOTONIC = 1
_TIMER_ABSTIME = 1
_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # its number among the system calls
_SLICE_NS = 100_000  # the shortest Linux grants
_REALTIME = (os.SCHED_FIFO, os.SCHED_RR)
_LIGHT_PPS = 20_000  # about a tenth of one core's time
_raised = False  # this process has made itself real-time

utc_ns = time.time_ns
monotonic_ns = time.monotonic_ns
cpu_ns = time.process_time_ns


class Timespec(ctypes.Structure):
    """struct timespec of a 64-bit Linux."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Alarm:
    """Sleeps until an instant of the monotonic clock; holds its timespec so that a call allocates nothing."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise HostError("the probe engine needs Linux", hint="run linkqual on a Linux host or virtual machine")
        self._timespec = Timespec()
        self._address = ctypes.addressof(self._timespec)
        self._nanosleep = _libc.clock_nanosleep
        self._nanosleep.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def sleep_until(self, instant_ns: int) -> None:
        """Returns at `instant_ns` or after it, or earlier when a signal came; at once when it has passed."""
        self._timespec.seconds, self._timespec.nanoseconds = divmod(instant_ns, NS_PER_S)
        self._nanosleep(_CLOCK_MONOTONIC, _TIMER_ABSTIME, self._address, None)

    def spin_until(self, instant_ns: int) -> None:
        """Burns the core until `instant_ns`: hides the wake-up time of a sleeping process."""
        while monotonic_ns() < instant_ns:
            pass


def sharpen_timers() -> None:
    """Timer slack of 1 ns: by default the kernel may wake a sleeper 50 us late to join timers."""
    _prctl(_PR_SET_TIMERSLACK, 1)


def die_with_parent() -> None:
    """Ask for SIGKILL when the thread that started this process ends: call it only where that thread lives as long."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def go_realtime(priority: int) -> bool:
    """SCHED_FIFO for this process; False when the right to do so is missing."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError:
        return False
    return True


def realtime_allowed() -> bool:
    """Whether `go_realtime` would be granted; this process stays as it is."""
    granted = go_realtime(1)
    if granted:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return granted


def go_prompt() -> bool:
    """A short time slice, so that the kernel runs this process soon after it wakes; needs no right, but Linux 6.12.

    False where the kernel knows no such request. sched_setattr(2) has no wrapper in libc: struct sched_attr of 48 octets. A process
    that was started with real-time priority (`chrt`) keeps it.
    """
    if os.sched_getscheduler(0) in _REALTIME:
        return True
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None:
        return False
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, os.getpriority(os.PRIO_PROCESS, 0), 0, _SLICE_NS, 0, 0)
    return bool(_libc.syscall(ctypes.c_long(number), 0, attributes, 0) == 0)


def go_on_time(rate_pps: float) -> bool:
    """Before sending at this rate: real-time priority where the right is there and the work is light, else a short time slice.

    So no other program of this host holds a packet up. Light, because a real-time process that never sleeps would keep the
    kernel's own packet work from its core. True with real-time priority.
    """
    global _raised  # noqa: PLW0603  of this process, as priorities are
    if not _raised and os.sched_getscheduler(0) in _REALTIME:
        return True  # as it was started
    _raised = 0 < rate_pps <= _LIGHT_PPS and go_realtime(1)
    if not _raised:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        go_prompt()
    return _raised


def stand_back(niceness: int) -> None:
    """Let others go first, and never push in on waking (SCHED_BATCH); children inherit both."""
    os.nice(niceness)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _prctl(option: int, value: int) -> None:
    _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
