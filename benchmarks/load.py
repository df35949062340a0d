#!/usr/bin/env python3
"""What our loads reach beside iperf3's, between two hosts in namespaces of their own joined by one veth pair.

    benchmarks/load.py [--seconds 3] [--rounds 3] [--json]

UDP: our own sender and receiver, a core each, every packet checked by its number: in trains (UDP_SEGMENT), and as single packets;
against `iperf3 -u -b 0`. TCP: one stream through the throughput probe and an agent, against iperf3 by hand. The rounds are interleaved:
this host's speed drifts, so read the ratios, and on a busy one those `a_core`: for each core the busier end had. Rates are at the IP layer for UDP, goodput for TCP, both as the receiver saw them.
`--json`: one object on the last line. Needs iperf3, and root or user namespaces.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from topology import Hosts

from linkqual.model import Direction, LoadCount, Step
from linkqual.net.load import LoadEnd
from linkqual.net.load_ends import LoadConfig
from linkqual.session.load_phase import Phase
from linkqual.session.load_result import together
from linkqual.units import NS_PER_S

PORT, PAYLOAD, HEADERS = 5201, 1472, 28
TOKEN = 0x6C6F6164
Answer = dict[str, Any]


def udp(hosts: Hosts, seconds: float, *, segmented: bool) -> LoadCount:
    """As fast as both ends of ours go."""
    phase = Phase("load", 0, duration_ns=int(seconds * NS_PER_S), segmented=segmented)
    far = LoadConfig(TOKEN, hosts.near_address, 1, PAYLOAD, bind_address=hosts.far_address)
    with LoadEnd.start("load-receiver", far, hosts.far) as receiver:
        near = LoadConfig(TOKEN, hosts.far_address, 1, PAYLOAD, peer_port=receiver.ports[0])
        with LoadEnd.start("load-sender", near, hosts.near) as sender:
            receiver.begin(1, phase)
            sender.begin(1, phase, receiver.buffer_bytes)
            until = time.monotonic() + seconds + 10
            while not sender.look()["ended_by"] and time.monotonic() < until:
                time.sleep(0.05)
            while receiver.look()["quiet_ns"] < 200_000_000:
                time.sleep(0.05)
            return together(phase, Direction.FORWARD, sender.result(), receiver.result())


def a_core(count: LoadCount) -> float:
    """Gbit/s received for each core that the busier end had: what other work on the machine took is left out."""
    return (count.rate_bps or 0) / 1e9 / max(count.cpu_sender or 0, count.cpu_receiver or 0)


def iperf3(hosts: Hosts, seconds: float, *more: str) -> Answer:
    """One test by hand: the receiver's rate, and lost packets of UDP."""
    with hosts.serve("iperf3", "-s", "-1", "-p", str(PORT), "-B", hosts.far_address):
        command = ["iperf3", "-c", hosts.far_address, "-p", str(PORT), "-t", f"{seconds:.0f}", "-J", *more]
        document = json.loads(hosts.run(hosts.near, *command).out)["end"]
    if "-u" in more:
        got = document["sum"]
        arrived = got["packets"] - got["lost_packets"]
        cpu = document["cpu_utilization_percent"]
        return {
            "bps": arrived * (PAYLOAD + HEADERS) * 8 / got["seconds"],
            "cpu": max(cpu["host_total"], cpu["remote_total"]) / 100,
            "lost": got["lost_packets"],
            "sent": got["packets"],
        }
    return {"bps": document["sum_received"]["bits_per_second"]}


def tcp(hosts: Hosts, seconds: float) -> float:
    """Goodput of one stream as the throughput probe has it, through an agent: bits/s."""
    linkqual = [sys.executable, "-m", "linkqual", "agent", "--ephemeral", "--quiet", "--bind", hosts.far_address]
    with subprocess.Popen([*hosts.far, *linkqual], stdout=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stdout is not None
            line = agent.stdout.readline().strip()
            done = hosts.run(hosts.near, sys.executable, __file__, "--near", line, "--seconds", str(seconds))
        finally:
            agent.terminate()
    if not done.out:
        sys.exit(f"the throughput probe says nothing: {done.err}")
    return float(done.out)


def near(line: str, seconds: float) -> None:
    """The near end of `tcp`, in its host."""
    from linkqual.net.control import Control
    from linkqual.probes import throughput
    from linkqual.probes.bench import Bench
    from linkqual.wire.pairing import Peer

    params = {"streams": 1, "seconds": round(seconds), "warmup_seconds": 0, "congestion_control": "default"}
    with Control.connect(Peer.parse(line)) as control:
        bench = Bench(control.peer_address, control.near_address, control=control)
        measured = throughput.measure(Step("throughput/forward/1", "throughput", params, Direction.FORWARD), bench)
    if measured.throughput is None:
        sys.exit(str(measured.fault))
    print(statistics.mean(measured.throughput.receiver_bps))


def main() -> None:
    """Print what each reached, a line a round, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--near", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.near:
        near(asked.near, asked.seconds)
        return
    rows: list[Answer] = []
    with Hosts() as hosts:
        for number in range(asked.rounds):
            trains, single = (udp(hosts, asked.seconds, segmented=each) for each in (False, True))
            theirs = iperf3(hosts, asked.seconds, "-u", "-b", "0", "-l", str(PAYLOAD))
            row = {
                "udp_gbps": (trains.rate_bps or 0) / 1e9,
                "segmented_gbps": (single.rate_bps or 0) / 1e9,
                "iperf3_udp_gbps": theirs["bps"] / 1e9,
                "tcp_gbps": tcp(hosts, asked.seconds) / 1e9,
                "iperf3_tcp_gbps": iperf3(hosts, asked.seconds)["bps"] / 1e9,
                "udp_gbps_a_core": a_core(trains),
                "segmented_gbps_a_core": a_core(single),
                "iperf3_udp_gbps_a_core": theirs["bps"] / 1e9 / theirs["cpu"],
                "udp_lost": trains.lost + single.lost,
                "udp_host_lost": trains.host_lost + single.host_lost,
                "iperf3_udp_lost_share": theirs["lost"] / theirs["sent"],
            }
            rows.append(row)
            print(f"round {number + 1}: " + ", ".join(f"{name} {value:.4g}" for name, value in row.items()))
    figures = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    ratio = figures["udp_gbps"] / figures["iperf3_udp_gbps"]
    print(
        f"UDP in trains: {ratio:.1f} times iperf3 -u; single packets: {figures['segmented_gbps'] / figures['iperf3_udp_gbps']:.2f} times"
    )
    print(f"for each core: {figures['udp_gbps_a_core'] / figures['iperf3_udp_gbps_a_core']:.1f} times iperf3 -u")
    print(f"TCP through linkqual: {figures['tcp_gbps'] / figures['iperf3_tcp_gbps']:.3f} of bare iperf3")
    if asked.json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
