#!/usr/bin/env python3
"""How good the probe engine is, beside its peers, between two hosts in namespaces of their own. docs/benchmarks.md explains every row.

    benchmarks/engine.py [--packets 10000] [--rounds 3] [--quick] [--json]

The rounds are interleaved: this host's speed drifts, only figures of one batch compare, so read the ratios. Needs root or user
namespaces. A peer that is not installed is null. `--json`: one object on the last line. Nine minutes with every peer; `--quick`: a quarter of one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import chain
import numpy as np
import peers
import report
from peers import Figures, quantiles
from topology import Hosts

from linkqual.net.one_way import one_way as both_ends
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate, Stamp
from linkqual.session.attribution import apply_far_stamps
from linkqual.stats.boundaries import pass_after
from linkqual.stats.confidence import trials_to_prove
from linkqual.stats.histogram import quantile
from linkqual.units import NS_PER_S

MS = 1_000_000
LIMIT, MOST_LOST = 1e-5, 3  # what is to be certified, and in spite of how many losses
WINDOWS = (128, 256, 512)
LADDER = (5, 10, 20, 50, 100, 150, 200, 300)  # kpps asked of one-way senders, one second each
QUICK_LADDER = (100,)
REACHED = 0.9  # of the rate asked, to count as reached
NOISY = 0.5  # load average above which the neighbours are measured too
Answer = dict[str, Any]


# ---- one session of linkqual


def session(hosts: Hosts, *, witness: bool = False, marks: tuple[int, ...] = (), **settings: Any) -> Answer:
    """RTT quantiles in us by four kernel stamps, rate reached, own loss, CPU (s a million) and memory of both ends.

    `witness`: a capture at both ends too. `marks`: numbers of packets; `left_s` says how long after the first each of them left.
    """
    config = ReflectorConfig(hosts.far_address, hosts.near_address, ssid=1, max_pps=10**7)
    reflector = Reflector.start(config, launcher=hosts.far)
    wanted = SenderConfig(
        hosts.far_address, reflector.port, ssid=1, far_buffer_bytes=reflector.receive_buffer_bytes, **settings
    )
    seen = chain.watched(hosts, reflector.port, wanted.packet_bytes) if witness else None
    with seen[0] if seen else ExitStack(), Sender.start(wanted, launcher=hosts.near) as sender:
        before = reflector.counters()["cpu_ns"]
        chunks, memory = [], {"near": 0.0, "far": 0.0}
        for records in sender.chunks():
            chunks.append(records)
            memory = {"near": peak_mb(sender.pid) or memory["near"], "far": peak_mb(reflector.pid)}
        told = sender.report()
    final = reflector.stop()
    records = np.concatenate(chunks)
    apply_far_stamps(records, final["stamps"])
    whole = records[(records["fate"] == Fate.RECEIVED) & (records["stamps"] == Stamp.ALL_KERNEL)]
    rtt = (whole["received_ns"] - whole["sent_ns"]) - (whole["far_sent_ns"] - whole["far_received_ns"])
    sent = told["sent"]
    answer = {
        **(quantiles((rtt / 1000).tolist()) or {}),
        "kpps": told["rate_pps"] / 1000,
        "own_loss": sent - told["received"],
        "unstamped": len(records) - len(whole),
        "near": told["loop_cpu_ns"] / sent / 1000,
        "far": (final["counters"]["cpu_ns"] - before) / sent / 1000,
        "late_p50_us": (quantile(told["lateness"], 0.5) or 0) / 1000,
        "memory_near_mb": memory["near"],
        "memory_far_mb": memory["far"],
    }
    if answer["own_loss"]:
        drops = {"near socket": told["socket_drops"], "far socket": final["counters"]["socket_drops"]}
        print(f"lost {answer['own_loss']}: late {told['late']}, dropped {drops}", file=sys.stderr)
    if seen:
        answer["witness_p50"] = float(np.median(chain.round_trips(seen[1], seen[2]))) / 1000
    left = {n: float(records["sent_ns"][n - 1] - records["sent_ns"][0]) / NS_PER_S for n in marks if n <= len(records)}
    return answer | {"left_s": left}


def peak_mb(pid: int) -> float:
    """Largest RSS of a process so far, in MB; 0.0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")), 0.0)
    except OSError:
        return 0.0


def numpy_mb() -> float:
    """Peak RSS of a Python that has imported numpy and nothing else."""
    show = "import numpy; print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"
    return int(subprocess.run([sys.executable, "-c", show], capture_output=True, check=True).stdout) / 1024


def one_way(hosts: Hosts, kpps: int) -> peers.Run:
    """One second of packets that nobody answers: sent on a schedule, kernel stamps at both ends, losses by what the far end noted."""
    far = ReflectorConfig(hosts.far_address, hosts.near_address, ssid=1, max_pps=10**7, answering=False)
    with Reflector.start(far, launcher=hosts.far) as reflector:
        before = reflector.counters()["cpu_ns"]
        near = SenderConfig(
            hosts.far_address,
            reflector.port,
            ssid=1,
            one_way=True,
            rate_pps=kpps * 1000,
            packets=kpps * 1000,
            far_buffer_bytes=reflector.receive_buffer_bytes,
        )
        with Sender.start(near, launcher=hosts.near) as sender:
            lost = sum(
                int((rows["fate"] == Fate.LOST_FORWARD).sum()) for rows in both_ends(sender, reflector, 500 * MS)
            )
            told = sender.report()
        cpu = reflector.stop()["counters"]["cpu_ns"] - before
    return peers.Run(
        told["rate_pps"] / 1000, lost, told["loop_cpu_ns"] / told["sent"] / 1000, cpu / told["sent"] / 1000
    )


# ---- the parts


def floor(asked: argparse.Namespace, hosts: Hosts, names: list[str]) -> dict[str, list[Answer | None]]:
    """Round trips at 1 kpps of linkqual and every peer, and linkqual's rates, round after round."""
    runs: dict[str, list[Answer | None]] = {}
    for number in range(asked.rounds):
        say(asked, f"round {number + 1} of {asked.rounds}")
        runs.setdefault("linkqual", []).append(
            session(hosts, rate_pps=1000, packets=asked.packets, timeout_ns=NS_PER_S)
        )
        for name in names:
            runs.setdefault(name, []).append(peers.tried(peers.ROUND_TRIP[name], hosts, asked.packets))
        runs.setdefault("20k", []).append(session(hosts, rate_pps=20_000, packets=asked.many // 5, timeout_ns=500 * MS))
        fast: dict[str, Answer] = {"open": {"rate_pps": 100_000}, "closed": {"rate_pps": 0, "window": WINDOWS[-1]}}
        for key, settings in fast.items():
            runs.setdefault(key, []).append(session(hosts, packets=asked.many, timeout_ns=500 * MS, **settings))
    return runs


def chained(asked: argparse.Namespace, direct: Hosts) -> Answer | None:
    """Medians in us of both topologies, by linkqual and by the witness, of the same packets."""
    if not chain.available():
        return None
    say(asked, "three routers, with a capture as witness")
    found: list[Answer] = []
    with Hosts(routers=3) as routed:
        for _ in range(asked.rounds):
            each: Answer = {}
            for name, hosts in (("direct", direct), ("routed", routed)):
                run = session(hosts, witness=True, rate_pps=1000, packets=asked.chain, timeout_ns=NS_PER_S)
                each |= {f"linkqual_{name}_us": run["p50"], f"witness_{name}_us": run["witness_p50"]}
                if not asked.quick and shutil.which("ping") and (pinged := peers.tried(peers.ping, hosts, asked.chain)):
                    each[f"ping_{name}_us"] = pinged["p50"]
            found.append(each)
    answer = middle(found)
    assert answer is not None
    for who in ("linkqual", "witness", "ping"):
        if f"{who}_routed_us" in answer:
            answer[f"{who}_added_us"] = round(answer[f"{who}_routed_us"] - answer[f"{who}_direct_us"], 3)
    answer["error"] = round(answer["linkqual_added_us"] / answer["witness_added_us"] - 1, 4)
    return answer


def certifying(asked: argparse.Namespace, hosts: Hosts) -> Answer:
    """Seconds of sending at 100 kpps until loss <= 1e-5 is proven at 95 % with 0 to 3 packets lost.

    "fixed": a run whose length was set before; "looking": a run that looks after every packet and ends as soon as it may.
    """
    counts = {
        "fixed": [trials_to_prove(LIMIT, lost) for lost in range(MOST_LOST + 1)],
        "looking": [pass_after(LIMIT, lost) for lost in range(MOST_LOST + 1)],
    }
    say(asked, "certifying")
    marks = tuple(n for each in counts.values() for n in each)
    most = max(marks) if not asked.quick else counts["fixed"][0]
    run = session(hosts, rate_pps=100_000, packets=most, timeout_ns=500 * MS, marks=marks)
    return {
        "packets": counts,
        "seconds": {how: [run["left_s"].get(n, n / run["kpps"] / 1000) for n in each] for how, each in counts.items()},
        "sent": most,
        "own_loss": run["own_loss"],
        "memory": {end: run[f"memory_{end}_mb"] for end in ("near", "far")},
    }


def ladders(asked: argparse.Namespace, hosts: Hosts, names: list[str]) -> dict[str, Answer | None]:
    """The last step of each one-way sender before the first that lost a packet or fell short, and that one as `failed`."""
    found: dict[str, Answer | None] = {}
    for name in names:
        say(asked, f"one way: {name}")
        answer: Answer = {"kpps": 0.0, "near": None, "far": None, "failed": None}
        for kpps in QUICK_LADDER if asked.quick else LADDER:
            run = one_way(hosts, kpps) if name == "linkqual" else peers.tried(peers.ONE_WAY[name], hosts, kpps)
            if run is None:
                break
            if run.lost or run.kpps < REACHED * kpps:
                answer["failed"] = {"asked_kpps": kpps, "kpps": run.kpps, "lost": run.lost}
                break
            answer |= {"kpps": run.kpps, "near": run.near, "far": run.far}
        found[name] = answer if answer["kpps"] or answer["failed"] else None
    return found


def middle(results: Sequence[Answer | None]) -> Answer | None:
    """Median of each figure over the rounds; None when there is none."""
    known = [result for result in results if result]
    if not known:
        return None
    keys = [key for key, value in known[0].items() if isinstance(value, int | float)]
    return {key: round(statistics.median(each[key] for each in known), 3) for key in keys}


# ---- together


def measure(asked: argparse.Namespace) -> Answer:
    """Everything, as one object."""
    load = os.getloadavg()[0]
    if load > NOISY:
        say(
            asked,
            f"noisy: load average {load:.1f} before we began; delays and rates are the neighbours' too, CPU less so",
        )
    if not asked.quick and (lacking := peers.missing()):
        say(asked, f"not installed: apt-get install {' '.join(lacking)}")
    round_trip = [] if asked.quick else [name for name in peers.ROUND_TRIP if shutil.which(name)]
    ladder = ["linkqual"] + ([] if asked.quick else [name for name in peers.ONE_WAY if shutil.which(name)])
    with Hosts() as hosts:
        runs = floor(asked, hosts, round_trip)
        routed = chained(asked, hosts)
        certified = certifying(asked, hosts)
        windows = {}
        for window in WINDOWS[:-1] if not asked.quick else ():
            windows[window] = session(hosts, rate_pps=0, window=window, packets=asked.many, timeout_ns=500 * MS)
        climbed = ladders(asked, hosts, ladder)
    figures = {name: middle(results) for name, results in runs.items()}
    here, twenty, opened, closed = (figures[name] or {} for name in ("linkqual", "20k", "open", "closed"))
    base = numpy_mb()
    own = [run["own_loss"] for name in ("linkqual", "20k", "open", "closed") for run in runs[name] if run]
    own += [run["own_loss"] for run in (certified, *windows.values())]
    beside = {name: figures.get(name) for name in peers.ROUND_TRIP}
    return {
        "rtt_us": {key: here[key] for key in peers.QUANTILES},
        "peers": beside,
        "ratios": {name: ratios(each, here) for name, each in beside.items()},
        "chain": routed,
        "open_loop_kpps": opened["kpps"],
        "closed_loop_kpps": closed["kpps"],
        "closed_loop": {str(window): round(run["kpps"], 1) for window, run in windows.items()}
        | {str(WINDOWS[-1]): closed["kpps"]},
        "one_way": {name: climbed.get(name) for name in ("linkqual", *peers.ONE_WAY)}
        | {"owping_published": peers.OWPING_PUBLISHED},
        "own_loss": int(sum(own)),
        "certify_s": certified["seconds"]["fixed"][0],
        "certify": certified,
        "cpu_s_per_million": {end: opened[end] for end in ("near", "far")},
        "cpu_s_per_million_closed": {end: closed[end] for end in ("near", "far")},
        "rate_20k": {key: twenty[key] for key in ("kpps", "p50", "p99", "near", "far")},
        "departure_late_us_p50": here["late_p50_us"],
        "memory_mb_above_numpy": {end: round(certified["memory"][end] - base, 1) for end in ("near", "far")},
        "load_average": round(load, 2),
        "rounds": asked.rounds,
        "packets": asked.packets,
    }


def ratios(peer: Figures | None, here: Answer) -> Figures | None:
    """How many times linkqual's figure a peer's is."""
    return {key: round(value / here[key], 1) for key, value in peer.items() if here.get(key)} if peer else None


def main() -> None:
    """Read the options, measure, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--packets", type=int, default=10_000, help="probes at 1 kpps, a round (default: %(default)s)")
    options.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default: %(default)s)")
    options.add_argument("--quick", action="store_true", help="one short round, no peers")
    options.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    asked = options.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # what runs beside us ends with us
    asked.many, asked.chain = trials_to_prove(LIMIT), 2000
    if asked.quick:
        asked.rounds, asked.packets, asked.many, asked.chain = 1, 1000, 50_000, 500
    answer = measure(asked)
    for line in report.lines(answer):
        print(line)
    if asked.json:
        print(json.dumps(answer))


def say(asked: argparse.Namespace, text: str) -> None:
    """Progress, out of the way of the object."""
    print(text, file=sys.stderr if asked.json else sys.stdout, flush=True)


if __name__ == "__main__":
    main()
