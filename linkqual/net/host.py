"""What this host can say of itself: its clock, the packets it dropped by itself, the versions of what it measures with. Floor 3."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

from linkqual import __version__
from linkqual.errors import HostError
from linkqual.model import ClockState, EndConditions
from linkqual.net import child
from linkqual.units import NS_PER_S

_THREAD_NET = Path("/proc/thread-self/net")  # of the calling thread's namespace; /proc/net is the main thread's
_TIME_ERROR = 5  # adjtimex: the clock is not synchronised
_SYNC_FLAG = Path("/run/systemd/timesync/synchronized")
_PROGRAMS = {"iperf3": ("iperf3", "--version"), "ping": ("ping", "-V")}


# ---- clock


def clock_state() -> ClockState:
    """Who disciplines this clock, whether it is in step, and the bound of its error as far as anyone states one.

    chronyd states one: |offset| + root dispersion + root delay / 2 (RFC 5905 section 4, root distance). The kernel's own figure
    (adjtimex, maxerror) stands in where no daemon is known.
    """
    chrony = _chrony()
    if chrony is not None:
        return chrony
    synchronised, error_ns = _kernel_clock()
    daemons = _running({"systemd-timesyn": "systemd-timesyncd", "phc2sys": "ptp4l", "ntpd": "ntpd"})
    if "ptp4l" in daemons:
        return ClockState("ptp4l", synchronised, None, "phc2sys steers the clock; it states no bound of its error")
    if "systemd-timesyncd" in daemons:
        synchronised = synchronised or _SYNC_FLAG.exists()
        return ClockState("systemd-timesyncd", synchronised, None, "timesyncd states no bound of its error")
    source = daemons[0] if daemons else "kernel" if synchronised else "none"
    detail = f"adjtimex: maxerror {error_ns / 1e6:.3f} ms" if synchronised else "nothing keeps this clock in step"
    return ClockState(source, synchronised, error_ns if synchronised else None, detail)


def _chrony() -> ClockState | None:
    """The state chronyd tells; None when chrony is not installed or not running."""
    if shutil.which("chronyc") is None:
        return None
    try:
        ended = child.run(["chronyc", "-c", "-n", "tracking"], timeout_s=3)
    except HostError:
        return None
    return read_chrony(ended.output.decode(errors="replace")) if ended.exit_code == 0 else None


def read_chrony(line: str) -> ClockState | None:
    """The one line of `chronyc -c tracking`: offset, root delay, root dispersion and leap status are its fields 5, 11, 12, 14."""
    columns = line.strip().split(",")
    try:
        offset, delay, dispersion = float(columns[4]), float(columns[10]), float(columns[11])
        stratum, leap = int(columns[2]), columns[13]
    except (IndexError, ValueError):
        return None
    synchronised = leap != "Not synchronised" and stratum > 0
    bound = round((abs(offset) + dispersion + delay / 2) * NS_PER_S)
    return ClockState(
        "chrony",
        synchronised,
        bound if synchronised else None,
        f"{columns[1] or 'no source'}, stratum {stratum}, leap {leap}",
    )


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


def _running(names: dict[str, str]) -> list[str]:
    """Which of the named processes run (by the kernel's 15-character name)."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = entry.read_text(encoding="ascii", errors="replace").strip()
        except OSError:  # ended meanwhile
            continue
        if name in names:
            found.add(names[name])
    return sorted(found)


# ---- drops


def drop_counters() -> dict[str, int]:
    """Packets this host dropped since it started, by counter, of the calling thread's network namespace.

    UdpRcvbufErrors (a full receive socket), UdpSndbufErrors, UdpInErrors, UdpMemErrors, the same for UDP over IPv6;
    softnet_dropped (a full backlog of a core; of the whole host); and per interface rx_dropped, tx_dropped, rx_fifo.
    A counter the kernel does not have is absent.
    """
    found: dict[str, int] = {}
    snmp = _lines("snmp")
    for names, values in pairwise(snmp):
        if names.startswith("Udp: ") and values.startswith("Udp: ") and "InErrors" in names:
            pairs = zip(names.split()[1:], values.split()[1:], strict=False)
            found |= {f"Udp{name}": int(value) for name, value in pairs if name in _UDP}
    for line in _lines("snmp6"):
        name, _, value = line.partition(" ")
        if name.removeprefix("Udp6") in _UDP and name.startswith("Udp6"):
            found[name] = int(value)
    softnet = [int(line.split()[1], 16) for line in _lines("softnet_stat")]
    if softnet:
        found["softnet_dropped"] = sum(softnet)
    for line in _lines("dev")[2:]:
        name, _, values = line.partition(":")
        columns = [int(value) for value in values.split()]
        for place, label in ((3, "rx_dropped"), (4, "rx_fifo"), (11, "tx_dropped")):
            found[f"{name.strip()}:{label}"] = columns[place]
    return found


_UDP = ("InErrors", "RcvbufErrors", "SndbufErrors", "MemErrors")


def _lines(name: str) -> list[str]:
    try:
        return (_THREAD_NET / name).read_text(encoding="ascii").splitlines()
    except OSError:
        return []


# ---- versions


@functools.cache
def program_version(program: str) -> str | None:
    """The version a program states ("3.12", "20221126"); None when it is not installed or says nothing."""
    if shutil.which(program) is None:
        return None
    try:
        ended = child.run(list(_PROGRAMS[program]), timeout_s=5)
    except HostError:
        return None
    first = (ended.output or ended.errors).decode(errors="replace").partition("\n")[0]
    match = re.search(r"\b(\d[\w.+-]*)", first.removeprefix(program))
    return match[1] if match else None


def iperf3_version() -> str | None:
    """ "3.12"; None when iperf3 is not installed."""
    return program_version("iperf3")


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = {"linkqual": __version__, "python": platform.python_version(), "kernel": platform.release()}
    with contextlib.suppress(PackageNotFoundError):
        found["numpy"] = version("numpy")
    found |= {program: said for program in _PROGRAMS if (said := program_version(program)) is not None}
    return tuple(found.items())


def versions() -> dict[str, str]:
    """Versions of linkqual, python, kernel, numpy, and of iperf3 and ping where they are installed."""
    return dict(_versions())


def boot_id() -> str:
    """The same at two ends that run on one kernel, and so share a clock; empty when the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


# ---- everything a result says of this end


def conditions() -> EndConditions:
    """This end as it stands in a document, without what only a step knows: drops are an increase, stamps and buffers a socket's."""
    return EndConditions(
        host=platform.node(),
        platform=f"{platform.system()} {platform.machine()}, {os.cpu_count() or 1} CPUs",
        versions=versions(),
        clock=clock_state(),
    )
