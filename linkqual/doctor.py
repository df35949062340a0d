"""What this host can measure, what not, and the exact command that mends it. Floor 5.

Every ability is tried, not guessed (`net.abilities`). The default test is `linkqual test` on the embedded line; what only other
measurements need is never a reason to refuse it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from linkqual.model import Json
from linkqual.net import abilities, clock_state, host
from linkqual.probes import iperf3_output
from linkqual.units import format_duration, format_size

_LEAST_BUFFER = 4 << 20
_LEAST_DISK = 1 << 30
_CLOCK_GOAL_NS = 1_000_000
_IPERF3_SOUND = (3, 5)  # what is wrong with older ones touches the rates themselves


class State(StrEnum):
    """OK; LIMITED: works, with a loss that is stated; MISSING: what needs it cannot be done."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Mend:
    """What to type, on systems of the Debian family and of the RHEL family. Empty: nothing to do."""

    debian: str = ""
    rhel: str = ""

    @classmethod
    def both(cls, command: str) -> Mend:
        """The same command everywhere."""
        return cls(command, command)

    @classmethod
    def packages(cls, debian: str, rhel: str) -> Mend:
        """Install packages."""
        return cls(f"apt-get install -y {debian}", f"dnf install -y {rhel}")

    def __bool__(self) -> bool:
        return bool(self.debian or self.rhel)

    def __str__(self) -> str:
        """The command for this host."""
        return self.rhel if shutil.which("apt-get") is None and shutil.which("dnf") is not None else self.debian


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `needed`: the default test cannot run without it."""

    name: str
    state: State
    found: str
    means: str  # what follows for measurements
    mend: Mend = Mend()
    needed: bool = False


def examine(folder: Path | None = None) -> list[Check]:
    """Look at everything; `folder` is where runs are kept (default: the current one). Takes about 50 ms."""
    entered, works = abilities.namespaces()
    return [
        _python(),
        _iperf3(),
        _program("ping", "ping", "an ICMP cross-check beside the UDP probes", Mend.packages("iputils-ping", "iputils")),
        _program("ip", "ip", "building the embedded line", Mend.packages("iproute2", "iproute")),
        _program("tc", "tc", "rates of the embedded line", Mend.packages("iproute2", "iproute-tc")),
        _program(
            "nft",
            "nft",
            "silent routers and changed markings of the embedded line",
            Mend.packages("nftables", "nftables"),
        ),
        _namespaces(entered, works),
        _delay(entered, works),
        _stamps(),
        _raw_sockets(),
        _buffers(),
        _clock(),
        _cpus(),
        _ipv6(),
        _disk(folder or Path.cwd()),
    ]


def ready(checks: list[Check]) -> bool:
    """Whether the default test can run on this host."""
    return all(check.state is not State.MISSING for check in checks if check.needed)


def describe(checks: list[Check]) -> list[str]:
    """Lines for people: what was found, what it means, what mends it, and whether the default test can run."""
    lines = []
    for check in checks:
        lines.append(f"{_SIGNS[check.state]} {check.name:<18}{check.found}")
        if check.state is not State.OK:
            lines += [f"{'':<20}{part}" for part in check.means.split("; ")]
            if check.mend:
                lines.append(f"{'':<20}mend: {check.mend}")
    lacking = ", ".join(check.name for check in checks if check.needed and check.state is State.MISSING)
    lines += ["", f"the default test cannot run: {lacking}" if lacking else "the default test can run: linkqual test"]
    return lines


_SIGNS = {State.OK: "+", State.LIMITED: "~", State.MISSING: "!"}


def as_json(checks: list[Check]) -> Json:
    """One object for --json."""
    return {
        "default_test": ready(checks),
        "checks": [
            {
                "name": check.name,
                "state": str(check.state),
                "needed": check.needed,
                "found": check.found,
                "means": check.means,
                "mend": {"debian": check.mend.debian, "rhel": check.mend.rhel},
            }
            for check in checks
        ],
    }


def _python() -> Check:
    found = ".".join(str(part) for part in sys.version_info[:3])
    return Check("python", State.OK, found, "runs linkqual", needed=True)


def _iperf3() -> Check:
    version = host.iperf3_version()
    mend = Mend.packages("iperf3", "iperf3")
    if version is None:
        return Check("iperf3", State.MISSING, "not installed", "no throughput can be measured", mend, needed=True)
    faults = iperf3_output.known_wrong(version)
    old = (iperf3_output.number(version) or _IPERF3_SOUND) < _IPERF3_SOUND
    state, means = State.LIMITED if faults else State.OK, "; ".join(faults) or "measures TCP throughput"
    return Check("iperf3", state, version, means, mend if old else Mend(), needed=True)


def _program(name: str, program: str, purpose: str, mend: Mend) -> Check:
    path = shutil.which(program)
    if path is None:
        return Check(name, State.MISSING, "not installed", f"needed for {purpose}", mend, needed=True)
    return Check(name, State.OK, path, f"used for {purpose}", needed=True)


_ALLOW_NAMESPACES = Mend(
    "sysctl -w user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0"
    "  (names your kernel does not know may be left out; or run linkqual as root)",
    "sysctl -w user.max_user_namespaces=10000  (or run linkqual as root)",
)


_NAMESPACE_PROGRAMS = {  # and the packages they are in, of Debian and RHEL
    "unshare": ("util-linux", "util-linux"),
    "nsenter": ("util-linux", "util-linux"),
    "ip": ("iproute2", "iproute"),
}


def _namespaces(entered: bool, works: frozenset[str]) -> Check:
    name, means = "namespaces", "the embedded line and the lab are built in namespaces of their own"
    absent = [program for program in _NAMESPACE_PROGRAMS if shutil.which(program) is None]
    if absent:
        packages = [_NAMESPACE_PROGRAMS[program] for program in absent]
        debian, rhel = (" ".join(dict.fromkeys(names)) for names in zip(*packages, strict=True))
        found = f"not tried: no program {', '.join(absent)} in PATH"
        return Check(name, State.MISSING, found, means, Mend.packages(debian, rhel), needed=True)
    if not entered:
        return Check(name, State.MISSING, "refused", means, _ALLOW_NAMESPACES, needed=True)
    lacking = [word for word in ("veth", "tbf", "nft") if word not in works]
    if lacking:
        modules = " ".join({"veth": "veth", "tbf": "sch_tbf", "nft": "nf_tables"}[word] for word in lacking)
        found = f"entered, but without {', '.join(lacking)}"
        mend = Mend.both(f"modprobe -a {modules}") if "veth" in works else _ALLOW_NAMESPACES
        return Check(name, State.MISSING, found, means, mend, needed=True)
    who = "as root" if os.geteuid() == 0 else "as this user"
    return Check(name, State.OK, f"links, shapers and filters work in them, {who}", means, needed=True)


def _delay(entered: bool, works: frozenset[str]) -> Check:
    name, means = "delay of the line", "the embedded line delays and drops packets in a TUN device"
    if "tun" in works:
        return Check(name, State.OK, "TUN devices work", means, needed=True)
    found = "no TUN device" if entered else "not tried without namespaces"
    mend = Mend.both("modprobe tun && chmod 666 /dev/net/tun  (in a container: start it with --device /dev/net/tun)")
    return Check(name, State.MISSING, found, means, mend, needed=True)


def _stamps() -> Check:
    seen = abilities.stamps()
    name = "kernel stamps"
    if seen == {"tx", "rx"}:
        return Check(
            name, State.OK, "sending and receiving", "delays leave this host's own scheduling out", needed=True
        )
    found = f"{' and '.join(sorted(seen))} only" if seen else "none"
    means = "delays include this host's scheduling, tens of microseconds and more"
    return Check(name, State.LIMITED, found, means, Mend.both("use a Linux kernel of 4.13 or later"), needed=True)


def _raw_sockets() -> Check:
    name = "raw sockets"
    if abilities.raw_sockets():
        return Check(name, State.OK, "allowed", "traces also show the TTLs of replies")
    means = "traces of a real line lack the TTLs of replies, and routers that quote the UDP header alone (the embedded line has its own rights)"
    python = os.path.realpath(sys.executable)
    return Check(name, State.LIMITED, "refused", means, Mend.both(f"run as root, or: setcap cap_net_raw+ep {python}"))


def _buffers() -> Check:
    got = abilities.buffers()
    best = max(got.granted, got.forced or 0)
    name, means = (
        "socket buffers",
        "a full receive buffer drops packets the line has delivered (counted apart, never as line loss)",
    )
    found = f"{format_size(best)}{' (by force)' if got.forced and got.forced > got.granted else ''}"
    if best >= _LEAST_BUFFER:
        return Check(name, State.OK, found, means)
    means += "; at high rates fewer packets are kept in flight"
    return Check(
        name, State.LIMITED, found, means, Mend.both("sysctl -w net.core.rmem_max=16777216 net.core.wmem_max=16777216")
    )


def _clock() -> Check:
    state = clock_state.clock_state()
    name = "clock"
    mend = Mend.packages("chrony && systemctl enable --now chrony", "chrony && systemctl enable --now chronyd")
    if not state.synchronised:
        means = "one-way delay is not known in absolute terms; round trip, loss and jitter do not depend on it"
        return Check(name, State.LIMITED, f"not synchronised ({state.source})", means, mend)
    if state.error_ns is None:
        means = "one-way delay has no bound of its error; chrony states one"
        return Check(name, State.LIMITED, f"kept by {state.source}", means, mend)
    found = f"kept by {state.source}, within {format_duration(state.error_ns)} of UTC"
    if state.error_ns > _CLOCK_GOAL_NS:
        return Check(name, State.LIMITED, found, "one-way delay is known no better than that", mend)
    return Check(name, State.OK, found, "one-way delay is known to that bound")


def _cpus() -> Check:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if usable >= 2:
        return Check("CPUs", State.OK, str(usable), "sender and receiver run side by side")
    means = "both ends of the embedded line share one core: rates and jitter are the host's, not the line's"
    return Check("CPUs", State.LIMITED, str(usable), means, Mend.both("give the machine a second CPU"))


def _ipv6() -> Check:
    if abilities.stamps("::1"):
        return Check("IPv6", State.OK, "works", "lines over IPv6 can be measured")
    return Check(
        "IPv6", State.LIMITED, "switched off", "IPv4 only", Mend.both("sysctl -w net.ipv6.conf.all.disable_ipv6=0")
    )


def _disk(folder: Path) -> Check:
    name = "room for runs"
    try:
        free = shutil.disk_usage(folder).free
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        means = "a run needs a folder to be kept in"
        return Check(
            name, State.MISSING, f"{folder}: {error.strerror}", means, Mend.both("choose a folder with -o"), needed=True
        )
    found = f"{format_size(free)} free in {folder}"
    if free < _LEAST_DISK:
        return Check(
            name,
            State.LIMITED,
            found,
            "a million packets take about 100 MB",
            Mend.both("make room, or choose a folder with -o"),
        )
    return Check(name, State.OK, found, "a million packets take about 100 MB")
