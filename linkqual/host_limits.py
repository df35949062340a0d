"""How well this host measures, at length: what `linkqual doctor --calibrate` tries over the loopback, and what to do about bad values. Floor 5."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from linkqual.calibration import LOOPBACK, Calibration, Run
from linkqual.doctor import Check, Mend, State
from linkqual.errors import HostError, LinkqualError
from linkqual.model import Histogram, Json
from linkqual.net import clock
from linkqual.stats.histogram import LogLinear, quantile
from linkqual.units import NS_PER_S, format_duration, format_packet_rate

_STEADY_PACKETS, _STEADY_PPS = 2000, 1000
_ECHOES = 500
_FASTEST_NS = 2 * NS_PER_S
_QUANTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
_GOOD_FLOOR_NS = 50_000  # p99
_GOOD_LATENESS_NS = 1_000_000  # p99
_GOOD_PPS = 100_000
_GOOD_SOURCES = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_QUIET = Mend.both(
    "end what else runs here; cpupower frequency-set -g performance; in a virtual machine: give it cores of its own"
)
_ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True:
    data, peer = s.recvfrom(64)
    s.sendto(data, peer)
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """What was found; delays in ns, None where nothing came back."""

    kernel: dict[str, int | None]  # round trip over the loopback by kernel stamps, by quantile
    user: dict[str, int | None]  # the same by a program's own clock
    lateness: dict[str, int | None]  # departure against the schedule, 1000 a second
    stamps: str
    resolution_ns: int  # smallest step of CLOCK_REALTIME that was seen
    clock_source: str
    realtime: bool
    fastest_pps: float | None  # closed loop
    fastest_lost: int
    near_cpu_s: float | None  # a million packets, of the sender and of the reflector
    far_cpu_s: float | None


def measure() -> Limits:
    """About six seconds. Raises HostError when probes do not run over the loopback."""
    steady = _run(Calibration.begin(_STEADY_PACKETS, _STEADY_PPS))
    fastest = _run(Calibration.begin(None, 0), _FASTEST_NS)
    moved = fastest.received + fastest.lost
    return Limits(
        kernel=_spread(steady.round_trips),
        user=_spread(_echoes()),
        lateness=_spread(steady.near.get("lateness") or Histogram()),
        stamps=str(steady.near.get("t1_source", "")),
        resolution_ns=_resolution(),
        clock_source=_CLOCK_SOURCE.read_text().strip() if _CLOCK_SOURCE.exists() else "not told",
        realtime=clock.realtime_allowed(),
        fastest_pps=fastest.near.get("rate_pps"),
        fastest_lost=fastest.lost,
        near_cpu_s=_cpu(fastest.near.get("loop_cpu_ns"), moved),
        far_cpu_s=_cpu(fastest.far.get("cpu_ns"), moved),
    )


def _run(running: Calibration, longest_ns: int = 0) -> Run:
    """`longest_ns`: from now on, since both processes stand ready now; 0: until all packets are sent."""
    begun = time.monotonic_ns()
    with running:
        if running.why_not:
            raise HostError(running.why_not, "switch the loopback on: ip link set lo up")
        return running.run(lambda: 0 < longest_ns < time.monotonic_ns() - begun)


def _spread(found: Histogram) -> dict[str, int | None]:
    return {name: quantile(found, q) for name, q in _QUANTILES} | {"max": found.maximum}


def _cpu(ns: int | None, packets: int) -> float | None:
    return ns / NS_PER_S / packets * 1e6 if ns and packets else None


def _resolution() -> int:
    seen = [time.time_ns() for _ in range(2000)]
    return min((b - a for a, b in pairwise(seen) if b > a), default=0)


# ---- a program's own stamps


def _echoes() -> Histogram:
    """Round trips to another process as a program without kernel stamps sees them: both wake-ups are in."""
    found = LogLinear()
    with _echo() as port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.2)
        sock.connect((LOOPBACK, port))
        due = time.monotonic_ns()
        for _ in range(_ECHOES):
            due += NS_PER_S // _STEADY_PPS
            time.sleep(max(0, due - time.monotonic_ns()) / NS_PER_S)
            left = time.monotonic_ns()
            try:
                sock.send(bytes(44))
                sock.recv(64)
            except OSError:
                continue
            found.add([time.monotonic_ns() - left])
    return found.data()


@contextmanager
def _echo() -> Iterator[int]:
    """A process that sends back what it gets; its port."""
    process = subprocess.Popen([sys.executable, "-I", "-c", _ECHO], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline() or 0)
    finally:
        process.kill()
        process.wait()
        process.stdout.close() if process.stdout else None


# ---- what it means


def checks(found: Limits) -> list[Check]:
    """Each figure with what follows from it."""
    return [_floor(found), _user(found), _lateness(found), _clock(found), _fastest(found), _realtime(found)]


def _words(found: dict[str, int | None]) -> str:
    return (
        ", ".join(f"{name} {format_duration(value)}" for name, value in found.items())
        if found.get("max") is not None
        else "nothing came back"
    )


def _floor(found: Limits) -> Check:
    p99 = found.kernel.get("p99")
    state = State.OK if p99 is not None and p99 <= _GOOD_FLOOR_NS else State.LIMITED
    means = f"this host adds as much to a round trip ({found.stamps or 'no'} stamps): what is shorter is not the line's"
    return Check("this host adds", state, _words(found.kernel), means, Mend() if state is State.OK else _QUIET)


def _user(found: Limits) -> Check:
    return Check(
        "user-space stamps", State.OK, _words(found.user), "what a prober without kernel stamps would add here"
    )


def _lateness(found: Limits) -> Check:
    p99 = found.lateness.get("p99")
    state = State.OK if p99 is not None and p99 <= _GOOD_LATENESS_NS else State.LIMITED
    means = "packets leave as late as that, and the ones behind them in a burst; delays are right all the same, since departures are stamped"
    return Check("pacing", state, f"late by {_words(found.lateness)}", means, Mend() if state is State.OK else _QUIET)


def _clock(found: Limits) -> Check:
    said = f"steps of {format_duration(found.resolution_ns)}, source {found.clock_source}"
    if found.clock_source in _GOOD_SOURCES:
        return Check("clock resolution", State.OK, said, "stamps are finer than any delay")
    means = "reading this clock source takes a microsecond and more, for every stamp"
    mend = Mend.both(
        "boot with clocksource=tsc tsc=reliable, if the processor's is sound (dmesg says why the kernel left it)"
    )
    return Check("clock resolution", State.LIMITED, said, means, mend)


def _fastest(found: Limits) -> Check:
    rate = found.fastest_pps or 0.0
    said = f"{format_packet_rate(rate)}, {found.fastest_lost} lost"
    if found.near_cpu_s is not None and found.far_cpu_s is not None:
        said += f"; a million packets take {found.near_cpu_s:.3g} s of processor to send and {found.far_cpu_s:.3g} s to reflect"
    good = rate >= _GOOD_PPS and not found.fastest_lost
    means = "with both ends on this host; ask for less than half of it with --rate where loss must be the line's"
    return Check("fastest", State.OK if good else State.LIMITED, said, means, Mend() if good else _QUIET)


def _realtime(found: Limits) -> Check:
    if found.realtime:
        return Check("real time", State.OK, "priority granted", "the embedded line keeps its times beside other load")
    mend = Mend.both(f"run as root, or: setcap cap_sys_nice+ep {Path(sys.executable).resolve()}")
    return Check("real time", State.LIMITED, "priority refused", "other programs can make the embedded line late", mend)


def as_json(found: Limits) -> Json:
    """One object for --json."""
    return asdict(found)


def tried() -> tuple[Limits | None, list[Check]]:
    """Limits and checks; a host on which they cannot be found says why."""
    try:
        found = measure()
    except LinkqualError as error:
        return None, [
            Check(
                "calibration",
                State.MISSING,
                error.message,
                "nothing is known of what this host adds by itself",
                Mend.both(error.hint),
            )
        ]
    return found, checks(found)
