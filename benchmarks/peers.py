"""The peers linkqual is measured beside, each as its own manual says it is to be run at 1000 probes a second; null when not installed.

A peer's defaults are left alone: they are what its users measure with. owping, twping: perfSONAR, not in Debian; the others: apt.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from topology import Hosts

QUANTILES = {"p50": 50.0, "p99": 99.0, "p99_9": 99.9}
Figures = dict[str, float]


def quantiles(values_us: list[float]) -> Figures | None:
    """p50, p99 and p99.9 of delays in us."""
    return {name: float(np.percentile(values_us, q)) for name, q in QUANTILES.items()} if values_us else None


# ---- round trips at 1000 a second


def irtt(hosts: Hosts, packets: int) -> Figures | None:
    with hosts.serve("irtt", "server", "-b", f"{hosts.far_address}:2112", "-i", "0", "-d", "0"):
        seconds = f"{packets / 1000:.3f}s"
        address = f"{hosts.far_address}:2112"
        out = hosts.run(hosts.near, "irtt", "client", "-Q", "-o", "-", "-i", "1ms", "-d", seconds, address).out
    if "{" not in out:
        return None
    trips = json.loads(out[out.index("{") :])["round_trips"]
    return quantiles([trip["delay"]["rtt"] / 1000 for trip in trips if "rtt" in trip.get("delay", {})])


def ping(hosts: Hosts, packets: int) -> Figures | None:
    out = hosts.run(hosts.near, "ping", "-n", "-i", "0.001", "-c", str(packets), hosts.far_address).out
    return quantiles([float(ms) * 1000 for ms in re.findall(r"time=([\d.]+) ms", out)])


def fping(hosts: Hosts, packets: int) -> Figures | None:
    out = hosts.run(hosts.near, "fping", "-p", "1", "-c", str(packets), hosts.far_address).out
    return quantiles([float(ms) * 1000 for ms in re.findall(r", ([\d.]+) ms \(", out)])


def sockperf(hosts: Hosts, packets: int) -> Figures | None:
    where = ("-i", hosts.far_address, "-p", "11111")
    with hosts.serve("sockperf", "server", *where):
        load = ("--mps", "1000", "-t", str(max(1, packets // 1000)), "--full-rtt")
        out = hosts.run(hosts.near, "sockperf", "under-load", *where, *load).out
    found = dict(re.findall(r"percentile ([\d.]+) =\s+([\d.]+)", out))
    names = {"p50": "50.000", "p99": "99.000", "p99_9": "99.900"}
    return {key: float(found[name]) for key, name in names.items()} if "99.900" in found else None


def owping(hosts: Hosts, packets: int) -> Figures | None:
    """One way, not round trip: the raw format gives both stamps of every packet in NTP's 64 bits."""
    with tempfile.TemporaryDirectory() as folder:
        daemon = ("-c", folder, "-d", folder, "-R", folder, "-a", "O", "-S", hosts.far_address, "-Z", "-f")
        with hosts.serve("owampd", *daemon):
            asked = ("-c", str(packets), "-i", "0.001f", "-t", "-R", hosts.far_address)
            out = hosts.run(hosts.near, "owping", *asked).out
    return quantiles(owping_delays_us(out))


def owping_delays_us(raw: str) -> list[float]:
    """From lines "SEQNO SENDTIME SSYNC SERR RECVTIME RSYNC RERR TTL"; a lost packet's RECVTIME is 0."""
    rows = [line.split() for line in raw.splitlines()]
    pairs = [(int(row[1]), int(row[4])) for row in rows if len(row) == 8 and row[0].isdigit()]
    return [(received - sent) / 2**32 * 1e6 for sent, received in pairs if received]


def twping(hosts: Hosts, packets: int) -> Figures | None:
    """It prints no p99 of the round trip."""
    with tempfile.TemporaryDirectory() as folder:
        daemon = ("-c", folder, "-d", folder, "-R", folder, "-a", "O", "-S", hosts.far_address, "-Z", "-f")
        with hosts.serve("twampd", *daemon):
            asked = ("-c", str(packets), "-i", "0.001f", "-b", "0.000001", "-n", "u", hosts.far_address)
            out = hosts.run(hosts.near, "twping", *asked).out
    found = re.search(r"round-trip time min/median/max = [^/]+/([\d.]+)/", out)
    return {"p50": float(found[1])} if found else None


ROUND_TRIP: dict[str, Callable[[Hosts, int], Figures | None]] = {
    "irtt": irtt,
    "ping": ping,
    "fping": fping,
    "sockperf": sockperf,
    "twping": twping,
    "owping": owping,
}


# ---- as fast as it goes without loss, one way


@dataclass(frozen=True, slots=True)
class Run:
    """One step of a ladder."""

    kpps: float
    lost: int
    near: float  # CPU seconds a million packets, of the sending program
    far: float


def iperf3(hosts: Hosts, kpps: int, octets: int = 64) -> Run | None:
    with hosts.serve("iperf3", "-s") as server:
        rate = ("-b", str(kpps * 1000 * 8 * octets), "-l", str(octets), "-t", "1")
        said = hosts.run(hosts.near, "iperf3", "-c", hosts.far_address, "-u", *rate, "-J")
        far = server.cpu_s()
    end = json.loads(said.out or "{}").get("end", {}).get("sum")
    if not end:
        return None
    sent = end["packets"]
    return Run(sent / end["seconds"] / 1000, end["lost_packets"], said.cpu_s / sent * 1e6, far / sent * 1e6)


def nuttcp(hosts: Hosts, kpps: int, octets: int = 64) -> Run | None:
    with hosts.serve("nuttcp", "-S", "--nofork", "--single-threaded") as server:
        rate = ("-u", f"-l{octets}", f"-R{kpps * 1000}p", "-T1", "-fparse")
        said = hosts.run(hosts.near, "nuttcp", *rate, hosts.far_address)
        far = server.cpu_s()
    found = dict(re.findall(r"(\w+)=([\d.]+)", said.out))
    if "pkt" not in found:
        return None
    received, lost = int(found["pkt"]), int(found["drop"])
    sent = received + lost
    return Run(sent / float(found["real_seconds"]) / 1000, lost, said.cpu_s / sent * 1e6, far / sent * 1e6)


Result = TypeVar("Result")


def tried(peer: Callable[[Hosts, int], Result | None], hosts: Hosts, asked: int) -> Result | None:
    """What a peer measured; None, and a line on stderr, when it says something else than the release this was written for."""
    try:
        return peer(hosts, asked)
    except (ValueError, KeyError, IndexError, ZeroDivisionError, OSError, subprocess.TimeoutExpired) as error:
        print(f"{peer.__name__} could not be used: {type(error).__name__}: {error}", file=sys.stderr)
        return None


ONE_WAY: dict[str, Callable[[Hosts, int], Run | None]] = {"iperf3": iperf3, "nuttcp": nuttcp}
# Published on another machine of this kind (Linux 6.18, 2 virtual cores, veth), shown where owping is not installed.
OWPING_PUBLISHED = {"one_way_kpps": 50.0, "near": 12.6, "far": 6.0}
PACKAGES = {"irtt": "irtt", "ping": "iputils-ping", "fping": "fping", "sockperf": "sockperf", "iperf3": "iperf3", "nuttcp": "nuttcp", "tcpdump": "tcpdump"}  # fmt: skip


def missing() -> list[str]:
    """Debian packages of peers that are not here."""
    return [package for program, package in PACKAGES.items() if not shutil.which(program)]
