"""Who keeps this host's clock, how well, and whether somebody set it while we measured. Floor 3."""

from __future__ import annotations

import ctypes
import shutil
import sys
import time
from pathlib import Path

from linkqual.errors import HostError
from linkqual.model import ClockState
from linkqual.net import child
from linkqual.wire import clock_words

_TIME_ERROR = 5  # adjtimex: the clock is not synchronised
_SYNC_FLAG = Path("/run/systemd/timesync/synchronized")
_PATIENCE_S = 3
_DAEMONS = {"systemd-timesyn": "systemd-timesyncd", "ptp4l": "ptp4l", "phc2sys": "phc2sys", "ntpd": "ntpd"}
_PTP_ANSWERS = ("GET CURRENT_DATA_SET", "GET TIME_STATUS_NP", "GET PORT_DATA_SET")
_LOOKS = 5


def clock_state() -> ClockState:
    """Who disciplines this clock, whether it is in step, and the bound of its error as far as anyone states one.

    Asked in this order: chronyd, ptp4l, systemd-timesyncd, and the kernel (adjtimex) for whoever else sets it. The kernel's
    maximum error is not believed where timesyncd runs: it sets that to zero whatever it knows.
    """
    if (chrony := _said("chronyc", "-c", "-n", "tracking")) and (state := clock_words.chrony(chrony)):
        return state
    synchronised, error_ns = _kernel_clock()
    daemons = _running(_DAEMONS)
    if daemons & {"ptp4l", "phc2sys"}:
        return _ptp(daemons, synchronised)
    if "systemd-timesyncd" in daemons:
        return _timesyncd(synchronised)
    source = "ntpd" if "ntpd" in daemons else "kernel" if synchronised else "none"
    detail = f"adjtimex: maxerror {error_ns / 1e6:.3f} ms" if synchronised else "nothing keeps this clock in step"
    return ClockState(source, synchronised, error_ns if synchronised else None, detail)


def realtime_ahead_ns() -> int:
    """CLOCK_REALTIME less CLOCK_MONOTONIC. Slewing moves both alike, so a change of it is a step of the clock, exactly."""
    looks = []
    for _ in range(_LOOKS):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        looks.append((after - before, wall - (before + after) // 2))
    return min(looks)[1]


def _said(*command: str) -> str:
    """What a program answers; "" when it is not installed, fails or hangs."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        ended = child.run(list(command), timeout_s=_PATIENCE_S)
    except HostError:
        return ""
    return ended.output.decode(errors="replace") if ended.exit_code == 0 else ""


def _timesyncd(synchronised: bool) -> ClockState:
    known = clock_words.timesyncd(_said("timedatectl", "timesync-status"))
    if known is not None:
        return known
    synchronised = synchronised or _SYNC_FLAG.exists()
    return ClockState("systemd-timesyncd", synchronised, None, "timedatectl does not tell the bound of its error")


def _ptp(daemons: set[str], synchronised: bool) -> ClockState:
    answers = "".join(_said("pmc", "-u", "-b", "0", question) for question in _PTP_ANSWERS)
    known = clock_words.ptp(answers, steered="phc2sys" in daemons)
    if known is not None:
        return known
    return ClockState("ptp4l", synchronised, None, "pmc does not tell its state, and PTP states no bound of its error")


class _Timex(ctypes.Structure):
    """struct timex of a 64-bit Linux; `modes` 0 only reads."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def _kernel_clock() -> tuple[bool, int]:
    """Whether the kernel calls its clock synchronised, and its maximum error in ns."""
    if sys.platform != "linux":
        return False, 0
    state = _Timex()
    code = ctypes.CDLL(None).adjtimex(ctypes.byref(state))
    return 0 <= code < _TIME_ERROR, int(state.maxerror) * 1000


def _running(names: dict[str, str]) -> set[str]:
    """Which of the named processes run (by the kernel's 15-character name)."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = entry.read_text(encoding="ascii", errors="replace").strip()
        except OSError:  # ended meanwhile
            continue
        if name in names:
            found.add(names[name])
    return found
