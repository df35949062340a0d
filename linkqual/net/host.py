"""What this host can say of itself: its clock, the versions of what it measures with. Floor 3."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import shutil
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from linkqual import __version__
from linkqual.errors import HostError
from linkqual.model import EndConditions
from linkqual.net import child, netlink, nic
from linkqual.net.clock_state import clock_state

_PROGRAMS = {"iperf3": ("iperf3", "--version"), "ping": ("ping", "-V")}


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


def check_congestion_control(name: str) -> None:
    """HostError when this kernel gives no socket that TCP congestion control (it is loaded on demand where root asks)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            hint = f"load it (modprobe tcp_{name}) and allow it (net.ipv4.tcp_allowed_congestion_control), or choose another"
            raise HostError(f"the kernel has no TCP congestion control {name}, or does not allow it", hint) from None


def boot_id() -> str:
    """The same at two ends that run on one kernel, and so share a clock; empty when the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


# ---- everything a result says of this end


def conditions(peer: str = "") -> EndConditions:
    """This end as it stands in a document, without what only a step knows: drops are an increase, stamps and buffers a socket's.

    `peer`: the card on the way to this address is looked at too.
    """
    interface = netlink.outgoing_interface(peer) if peer else None
    narrow = nic.narrow_slot(interface) if interface else ""
    return EndConditions(
        host=platform.node(),
        platform=f"{platform.system()} {platform.machine()}, {os.cpu_count() or 1} CPUs",
        versions=versions(),
        clock=clock_state(),
        notes=(narrow,) if narrow else (),
        slot_bps=nic.slot_bps(interface) if interface else None,
    )
