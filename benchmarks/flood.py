#!/usr/bin/env python3
"""Does a real session keep every packet while its reflector is flooded from the session's own address and port?

    benchmarks/flood.py [--seconds 60] [--rate 200000] [--authenticated] [--json]

Two hosts in namespaces, a session of 1000 packets/s, and beside it frames with the sender's own addresses and ports: random
octets, 1 to 40 octets, more octets than the session's packets have, replays, another session's SSID, another key. Every
packet that reached the far host must be in exactly one of the reflector's counters, and the session must lose none. Exit code 1 when either
is not so. Needs root or user namespaces.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import subprocess
import sys
import time
from typing import Any

import numpy as np
from topology import Hosts

from linkqual.net.messages import MessageBlock
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate
from linkqual.session.attribution import attribute
from linkqual.wire.stamp import Mode, request_template
from linkqual.wire.stamp_auth import sign, sign_tlvs

SSID, PPS, KEY = 7, 1000, bytes(range(32))
KINDS = ("random", "truncated", "oversized", "replayed", "wrong SSID", "wrong key")
FRAMES, BLOCKS, LONGEST = 504, 4, 1472  # a block holds as many of each kind
SOURCE_PORT = 40_862
REPLAYED = 100  # the session's first packets
LEAD_S = 0.4  # of the session before the flood
BATCH = 126
BEHIND_S = 0.01
EXCLUSIVE = (
    "answered", "unanswered", "logged", "foreign", "malformed", "wrong_key", "wrong_ssid", "replayed", "over_cap",
)  # fmt: skip
Answer = dict[str, Any]


# ---- the flood, in a process of its own


def payload(kind: str, size: int, signed: bool, chance: np.random.Generator) -> bytes:
    """Octets of one packet; `size`: of the session's own."""
    if kind == "random":
        return chance.bytes(int(chance.integers(44, size + 1)))
    if kind == "truncated":
        return chance.bytes(int(chance.integers(1, 41)))
    if kind == "oversized":
        return chance.bytes(int(chance.integers(max(size, 128) + 64, LONGEST + 1)))
    mode = Mode.AUTHENTICATED if signed or kind == "wrong key" else Mode.UNAUTHENTICATED
    packet = request_template(max(size, mode.follow_up_bytes), mode=mode, ssid=SSID + (kind == "wrong SSID")).copy()
    packet[:4] = np.frombuffer(int(chance.integers(0, REPLAYED)).to_bytes(4), np.uint8)
    if mode is Mode.AUTHENTICATED:
        key = chance.bytes(32) if kind == "wrong key" else KEY
        sign_tlvs(packet[None], key)
        sign(packet[None], key)
    return packet.tobytes()


def frame(data: bytes, ends: Answer) -> bytes:
    """Ethernet, IPv4 and UDP (without checksum) around it."""
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 0, 0, 64, 17, 0,
        socket.inet_aton(ends["source"]), socket.inet_aton(ends["destination"]),
    )  # fmt: skip
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    udp = struct.pack("!HHHH", ends["source_port"], ends["port"], 8 + len(data), 0)
    return bytes.fromhex(ends["far_mac"] + ends["near_mac"]) + b"\x08\x00" + ip + udp + data


def throw(ends: Answer) -> None:
    """Send on schedule for so many seconds; print how many and how fast."""
    chance = np.random.default_rng(1)
    blocks = [MessageBlock(FRAMES, 42 + LONGEST, control=False) for _ in range(BLOCKS)]
    for block in blocks:
        for row in range(FRAMES):
            octets = frame(payload(KINDS[row % len(KINDS)], ends["size"], ends["signed"], chance), ends)
            block.payload[row, : len(octets)] = np.frombuffer(octets, np.uint8)
            block.sizes[row] = len(octets)
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    out.bind(("near", 0))
    print("ready", flush=True)
    sys.stdin.readline()
    began = due = time.monotonic()
    sent = 0
    while (now := time.monotonic()) - began < ends["seconds"]:
        if due > now:
            time.sleep(min(due - now, 0.001))
            continue
        due = max(due, now - BEHIND_S)  # what this process slept through is not made up for in one burst
        block, at = blocks[sent // FRAMES % BLOCKS], sent % FRAMES
        taken, _ = block.send(out.fileno(), at, min(at + BATCH, FRAMES))
        sent += taken
        due += taken / ends["rate"]
    print(json.dumps({"thrown": sent, "kpps": sent / (time.monotonic() - began) / 1000}), flush=True)


# ---- the session beside it


def run(seconds: float, rate: int, signed: bool) -> Answer:
    """What the session lost, what the reflector counted, and how fast the flood was."""
    mode = Mode.AUTHENTICATED if signed else Mode.UNAUTHENTICATED
    size, packets = mode.follow_up_bytes, int(PPS * (seconds + 2 * LEAD_S + 1))
    with Hosts() as hosts:
        config = ReflectorConfig(
            hosts.far_address, hosts.near_address, ssid=SSID, max_pps=500_000, max_packets=2 * packets,
            longest_packet=size, key=KEY.hex() if signed else "",
        )  # fmt: skip
        with Reflector.start(config, launcher=hosts.far) as reflector:
            ends = {
                "source": hosts.near_address, "destination": hosts.far_address, "source_port": SOURCE_PORT,
                "port": reflector.port, "near_mac": mac(hosts, "near"), "far_mac": mac(hosts, "far"),
                "size": size, "signed": signed, "seconds": seconds, "rate": rate,
            }  # fmt: skip
            flood = subprocess.Popen(
                [*hosts.near, sys.executable, __file__, "--throw", json.dumps(ends)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert flood.stdout is not None
            flood.stdout.readline()  # its frames are made
            near = SenderConfig(
                hosts.far_address, reflector.port, ssid=SSID, source_port=SOURCE_PORT, rate_pps=PPS, packets=packets,
                packet_bytes=size, key=config.key,
            )  # fmt: skip
            with Sender.start(near, launcher=hosts.near) as sender:
                records = settle(sender, flood)
                report = sender.report()
            thrown = json.loads(flood.communicate(timeout=30)[0])
            attribute(records, 0, reflector.arrived(0, len(records)))
            final = reflector.stop()
    counters = final["counters"]
    counted = sum(counters[kind] for kind in EXCLUSIVE)
    return {
        **thrown,
        "sent": report["sent"],
        "lost": int((records["fate"] != Fate.RECEIVED).sum()),
        "lost_forward": int((records["fate"] == Fate.LOST_FORWARD).sum()),
        "lost_reverse": int((records["fate"] == Fate.LOST_REVERSE).sum()),
        "waited_s": report["blocked_ns"] / 1e9,
        "drop_times": final["drop_times"],
        "near_socket_drops": report["socket_drops"],
        "uncounted": thrown["thrown"] + report["sent"] - counted - counters["socket_drops"],
        "counters": counters,
    }


def settle(sender: Sender, flood: subprocess.Popen[str]) -> Any:
    """The session's records; the flood begins once its first packets are there to be replayed."""
    assert flood.stdin is not None
    chunks, waiting = [], True
    for records in sender.chunks():
        chunks.append(records)
        if waiting and sender.sent > PPS * LEAD_S:
            flood.stdin.write("go\n")
            flood.stdin.flush()
            waiting = False
    return np.concatenate(chunks)


def mac(hosts: Hosts, end: str) -> str:
    """Of the device named like the end."""
    said = hosts.run(getattr(hosts, end), "ip", "-j", "link", "show", end).out
    return str(json.loads(said)[0]["address"]).replace(":", "")


def main() -> None:
    """See the module's head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=200_000, help="packets a second thrown")
    parser.add_argument("--authenticated", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--throw", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.throw:
        throw(json.loads(asked.throw))
        return
    found = run(asked.seconds, asked.rate, asked.authenticated)
    counters = found["counters"]
    print(f"flood          {found['thrown']:,} packets, {found['kpps']:.0f} kpps (asked {asked.rate / 1000:.0f})")
    print(
        f"session        {found['sent']:,} packets, {found['lost']} lost ({found['lost_forward']} forward, {found['lost_reverse']} reverse)"
    )
    print("far end        " + ", ".join(f"{counters[kind]:,} {kind}" for kind in EXCLUSIVE if counters[kind]))
    print(
        f"               {counters['duplicates']:,} of those answered were copies; {counters['socket_drops']:,} dropped by its socket"
    )
    print(f"               {found['uncounted']:,} in no counter; {counters['cpu_ns'] / 1e9:.1f} CPU seconds")
    if asked.json:
        print(json.dumps(found))
    sys.exit(1 if found["lost"] or found["uncounted"] else 0)


if __name__ == "__main__":
    main()
