#!/usr/bin/env python3
"""How good the probe engine is, beside its peers, on one bare veth pair between two namespaces of its own.

    benchmarks/engine.py [--packets 10000] [--rounds 3] [--quick] [--json]

Every figure is the median over interleaved rounds: this host's speed drifts, only figures of one batch compare. Needs root or user
namespaces. A peer that is not installed is null. `--json`: one object on the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate, Stamp
from linkqual.session.attribution import apply_far_stamps
from linkqual.stats.confidence import ratio_upper

NEAR, FAR = "10.91.0.1", "10.91.0.2"
MS = 1_000_000
Figures = dict[str, float]


class Pair:
    """Two namespaces and a veth pair; gone with the processes that hold them."""

    def __init__(self) -> None:
        user = () if os.geteuid() == 0 else ("-Ur",)
        self._holders = [self._hold("unshare", *user)]
        inside = () if os.geteuid() == 0 else ("-U", "--preserve-credentials")
        self.near = ("nsenter", "-t", str(self._holders[0].pid), *inside, "-n")
        self._holders.append(self._hold(*self.near, "unshare"))
        self.far = ("nsenter", "-t", str(self._holders[1].pid), *inside, "-n")
        far_pid = str(self._holders[1].pid)
        self.run(self.near, "ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", far_pid)
        for where, device, address in ((self.near, "near", NEAR), (self.far, "far", FAR)):
            self.run(where, "ip", "address", "add", f"{address}/24", "dev", device)
            self.run(where, "ip", "link", "set", device, "up")

    @staticmethod
    def _hold(*command: str) -> subprocess.Popen[bytes]:
        holder = subprocess.Popen([*command, "-n", "sleep", "3600"])
        while holder.poll() is None:
            with open(f"/proc/{holder.pid}/comm") as comm:
                if comm.read().strip() == "sleep":
                    return holder
            time.sleep(0.01)
        sys.exit("no namespaces here: run as root, or allow user namespaces")

    @staticmethod
    def run(where: tuple[str, ...], *command: str, timeout: float = 120) -> str:
        return subprocess.run([*where, *command], capture_output=True, text=True, timeout=timeout, check=False).stdout

    def serve(self, *command: str) -> subprocess.Popen[bytes]:
        server = subprocess.Popen([*self.far, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        return server

    def close(self) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()


def engine(pair: Pair, **settings: Any) -> Figures:
    """One session: rtt_us quantiles by four kernel stamps, rate reached, own loss, CPU seconds a million packets of both ends."""
    reflector = Reflector.start(ReflectorConfig(FAR, NEAR, ssid=1, max_pps=10**7), launcher=pair.far)
    config = SenderConfig(FAR, reflector.port, ssid=1, far_buffer_bytes=reflector.receive_buffer_bytes, **settings)
    with Sender.start(config, launcher=pair.near) as sender:
        before = reflector.counters()["cpu_ns"]
        records = np.concatenate(list(sender.chunks()))
        report = sender.report()
    final = reflector.stop()
    apply_far_stamps(records, final["stamps"])
    whole = records[(records["fate"] == Fate.RECEIVED) & (records["stamps"] == Stamp.ALL_KERNEL)]
    rtt = (whole["received_ns"] - whole["sent_ns"]) - (whole["far_sent_ns"] - whole["far_received_ns"])
    p50, p99, p99_9 = (float(np.percentile(rtt, q)) / 1000 for q in (50, 99, 99.9))
    sent = report["sent"]
    return {
        "p50": p50,
        "p99": p99,
        "p99_9": p99_9,
        "kpps": report["rate_pps"] / 1000,
        "seconds": sent / report["rate_pps"],
        "own_loss": sent - report["received"],
        "unstamped": len(records) - len(whole),
        "near": report["loop_cpu_ns"] / sent / 1000,
        "far": (final["counters"]["cpu_ns"] - before) / sent / 1000,
        "lateness_p50_us": _lateness(report),
    }


def _lateness(report: dict[str, Any]) -> float:
    from linkqual.stats.histogram import quantile

    return (quantile(report["lateness"], 0.5) or 0) / 1000


# ---- peers


def _quantiles(rtts_us: list[float]) -> Figures | None:
    if not rtts_us:
        return None
    return {"p50": float(np.percentile(rtts_us, 50)), "p99": float(np.percentile(rtts_us, 99))}


def irtt(pair: Pair, packets: int) -> Figures | None:
    server = pair.serve("irtt", "server", "-b", f"{FAR}:2112", "-i", "0", "-d", "0")
    try:
        seconds = f"{packets / 1000:.3f}s"
        out = pair.run(pair.near, "irtt", "client", "-Q", "-o", "-", "-i", "1ms", "-d", seconds, f"{FAR}:2112")
        trips = json.loads(out[out.index("{") :])["round_trips"]
        return _quantiles([trip["delay"]["rtt"] / 1000 for trip in trips if "rtt" in trip.get("delay", {})])
    except (ValueError, KeyError):
        return None
    finally:
        server.kill()
        server.wait()


def ping(pair: Pair, packets: int) -> Figures | None:
    out = pair.run(pair.near, "ping", "-n", "-i", "0.001", "-c", str(packets), FAR)
    return _quantiles([float(ms) * 1000 for ms in re.findall(r"time=([\d.]+) ms", out)])


def fping(pair: Pair, packets: int) -> Figures | None:
    out = subprocess.run(
        [*pair.near, "fping", "-p", "1", "-c", str(packets), FAR],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout
    return _quantiles([float(ms) * 1000 for ms in re.findall(r", ([\d.]+) ms \(", out)])


def sockperf(pair: Pair, packets: int) -> Figures | None:
    server = pair.serve("sockperf", "server", "-i", FAR, "-p", "11111")
    try:
        seconds = str(max(1, packets // 1000))
        out = pair.run(
            pair.near, "sockperf", "under-load", "-i", FAR, "-p", "11111", "--mps", "1000", "-t", seconds, "--full-rtt"
        )
        found = dict(re.findall(r"percentile ([\d.]+) =\s+([\d.]+)", out))
        return {"p50": float(found["50.000"]), "p99": float(found["99.000"])} if "99.000" in found else None
    finally:
        server.kill()
        server.wait()


PEERS: dict[str, Callable[[Pair, int], Figures | None]] = {
    "irtt": irtt,
    "ping": ping,
    "sockperf": sockperf,
    "fping": fping,
}


def middle(results: list[Figures | None]) -> Figures | None:
    """Median of each figure over the rounds; None when a peer gave nothing."""
    known = [result for result in results if result]
    return {key: round(statistics.median(r[key] for r in known), 3) for key in known[0]} if known else None


def certify_packets(limit: float = 1e-5) -> int:
    """Loss-free packets whose 95 % upper bound of loss is at most the limit."""
    n = int(3 / limit) - 1000
    while ratio_upper(0, n, 0.95) > limit:
        n += 1
    return n


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--packets", type=int, default=10_000, help="probes at 1 kpps, a round (default: %(default)s)")
    options.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default: %(default)s)")
    options.add_argument("--quick", action="store_true", help="one round, 2000 probes, no peers")
    options.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    asked = options.parse_args()
    rounds, packets = (1, 2000) if asked.quick else (asked.rounds, asked.packets)
    peers = [] if asked.quick else [name for name in PEERS if shutil.which(name)]
    certify = certify_packets()
    runs: dict[str, list[Figures | None]] = {}
    pair = Pair()
    try:
        for number in range(rounds):
            say(asked, f"round {number + 1} of {rounds}")
            runs.setdefault("floor", []).append(engine(pair, rate_pps=1000, packets=packets))
            for name in peers:
                runs.setdefault(name, []).append(PEERS[name](pair, packets))
            runs.setdefault("20k", []).append(engine(pair, rate_pps=20_000, packets=100_000))
            runs.setdefault("open", []).append(engine(pair, rate_pps=100_000, packets=certify, timeout_ns=500 * MS))
            runs.setdefault("closed", []).append(
                engine(pair, rate_pps=0, window=512, packets=certify, timeout_ns=500 * MS)
            )
    finally:
        pair.close()
    figures = {name: middle(results) for name, results in runs.items()}
    floor, twenty, opened, closed = (figures[name] or {} for name in ("floor", "20k", "open", "closed"))
    answer = {
        "rtt_us": {key: floor[key] for key in ("p50", "p99", "p99_9")},
        "peers": {name: figures.get(name) for name in PEERS},
        "open_loop_kpps": opened["kpps"],
        "closed_loop_kpps": closed["kpps"],
        "own_loss": int(
            sum(run["own_loss"] for name in ("floor", "20k", "open", "closed") for run in runs[name] if run)
        ),
        "certify_s": opened["seconds"],
        "cpu_s_per_million": {"near": opened["near"], "far": opened["far"]},
        "rate_20k": {key: twenty[key] for key in ("kpps", "p50", "p99", "near", "far")},
        "departure_lateness_us_p50": floor["lateness_p50_us"],
        "rounds": rounds,
    }
    show(answer)
    if asked.json:
        print(json.dumps(answer))


def say(asked: argparse.Namespace, text: str) -> None:
    print(text, file=sys.stderr if asked.json else sys.stdout, flush=True)


def show(answer: dict[str, Any]) -> None:
    rtt = answer["rtt_us"]
    print(
        f"RTT at 1 kpps, four kernel stamps   p50 {rtt['p50']:8.2f} us   p99 {rtt['p99']:8.2f} us   p99.9 {rtt['p99_9']:.2f} us"
    )
    for name, figures in answer["peers"].items():
        line = f"p50 {figures['p50']:8.2f} us   p99 {figures['p99']:8.2f} us" if figures else "not measured"
        print(f"  {name:<34}{line}")
    cpu = answer["cpu_s_per_million"]
    print(
        f"open loop, 100 kpps asked: {answer['open_loop_kpps']:.1f} kpps reached; closed loop: {answer['closed_loop_kpps']:.1f} kpps"
    )
    print(f"loss of its own: {answer['own_loss']}; time to certify loss <= 1e-5 at 95 %: {answer['certify_s']:.2f} s")
    print(f"CPU s per million packets: near {cpu['near']:.1f}, far {cpu['far']:.1f}")


if __name__ == "__main__":
    main()
