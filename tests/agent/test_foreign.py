"""Sessions of a file, served to senders that are not ours: built by scapy, or written here after the RFCs."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from linkqual import provision
from linkqual.agent import foreign
from linkqual.errors import HostError, InputError
from linkqual.provision import Provision

ONE = """
sessions:
  - {name: router 7, source: 192.0.2.7, ssid: 7}
"""

# ---- the file


def parsed(text: str) -> tuple[Provision, ...]:
    return provision.parse(text, "senders.yaml")


def test_a_session_says_as_little_as_it_may() -> None:
    assert parsed(ONE) == (Provision("router 7", "192.0.2.7", 7),)


def test_everything_a_session_may_say() -> None:
    text = """
sessions:
  - name: any
    source: 2001:db8::1
    ssid: any
  - name: all of it
    source: 2001:0db8::1
    port: 40862
    ssid: 65535
    key: 00FF
    stateless: true
    timestamps: ptp
    mark: false
    rate: 2 kpps
    until: 2026-12-31T01:00:00+01:00
"""
    first, second = parsed(text)
    assert first == Provision(
        "all of it", "2001:db8::1", 65535, 40862, "00ff", True, "ptp", False, 2000, 1798675200 * 10**9
    )  # who says more of its sender comes first
    assert second.ssid is None
    assert "00ff" not in repr(first)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("source: 192.0.2.7, ssid: 7", "name: is missing"),
        ("name: a, ssid: 7", "source: is missing; allowed: an IPv4"),
        ("name: a, source: 192.0.2.7", "ssid: is missing; allowed: 1 to 65535, or any"),
        ("name: a, source: router7, ssid: 7", "'router7' is no address"),
        ("name: a, source: '::ffff:192.0.2.8', ssid: 7", "source: '::ffff:192.0.2.8' is an IPv4 address"),
        ("name: a, source: '::ffff:192.0.2.8', ssid: 7", "allowed: the IPv4 address, 192.0.2.8"),
        ("name: a, source: 192.0.2.7, ssid: 65536", "out of range"),
        ("name: a, source: 192.0.2.7, ssid: 7, key: secret", "this is no key; allowed: hexadecimal"),
        ("name: a, source: 192.0.2.7, ssid: 7, rate: 0", "no rate to serve"),
        ("name: a, source: 192.0.2.7, ssid: 7, timestamps: unix", "'unix' is not known; allowed: ntp, ptp"),
        ("name: a, source: 192.0.2.7, ssid: 7, until: tomorrow", "'tomorrow' is no instant"),
        ("name: a, source: 192.0.2.7, ssid: 7, until: 2026-12-31", "date, time and zone"),
        ("name: a, source: 192.0.2.7, ssid: 7, token: x", "unknown key"),
        ("name: router 7, source: 192.0.2.8, ssid: 7", "is the name of sessions#1 too"),
        ("name: a, source: 192.0.2.7, ssid: 7", "the same sender as sessions#1"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(entry: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(ONE + f"  - {{{entry}}}\n")
    assert says in str(caught.value)
    assert "senders.yaml:4: sessions#2" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["sessions:\n", "sessions: []\n", "sessions: {}\n", "session: []\n"])
def test_a_file_without_sessions_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="sessions"):
        parsed(text)


# ---- serving


@pytest.fixture
def served() -> Iterator[Callable[..., tuple[int, list[str]]]]:
    """Serve these sessions on loopback: (port, lines said); ends with the test, or with `lines.append(END)`."""
    threads: list[tuple[threading.Thread, threading.Event]] = []

    def start(*sessions: Provision, every_s: float = 60) -> tuple[int, list[str]]:
        lines: list[str] = []
        end = threading.Event()
        thread = threading.Thread(
            target=foreign.serve, args=(sessions, "", 0, lines.append, lambda: end.is_set() or END in lines, every_s)
        )
        thread.start()
        threads.append((thread, end))
        wait_for(lambda: lines)
        port = re.search(r"127.0.0.1 UDP port (\d+)", lines[0])
        assert port is not None
        return int(port[1]), lines

    yield start
    for thread, end in threads:
        end.set()
        thread.join(20)
        assert not thread.is_alive()


END = "that is all"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.01)


def sender(source: str = "127.0.0.1", port: int = 0) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((source, port))
    made.settimeout(10)
    return made


def ask(near: socket.socket, port: int, data: bytes) -> bytes:
    near.sendto(data, ("127.0.0.1", port))
    return near.recv(10_000)


def ntp_now() -> bytes:
    seconds, rest = divmod(time.time_ns(), 10**9)
    return struct.pack("!II", seconds + 2_208_988_800, (rest << 32) // 10**9)


def stamp(seq: int, ssid: int) -> bytes:
    """RFC 8762 s4.2.1, RFC 8972 s3."""
    return struct.pack("!I", seq) + ntp_now() + struct.pack("!HH", 0x8001, ssid) + bytes(28)


def signed(seq: int, ssid: int, key: bytes) -> bytes:
    """RFC 8762 s4.2.2 and s4.4."""
    body = struct.pack("!I12x", seq) + ntp_now() + struct.pack("!HH", 0x8001, ssid) + bytes(68)
    return body + hmac.new(key, body, hashlib.sha256).digest()[:16]


@pytest.mark.loopback
def test_several_senders_share_a_port_and_each_has_its_own_session(served: Any) -> None:
    key = bytes(range(32))
    port, lines = served(
        Provision("stateful", "127.0.0.1", 7),
        Provision("stateless", "127.0.0.1", 8, stateless=True, timestamps="ptp"),
        Provision("signed", "127.0.0.1", 9, key=key.hex()),
        Provision("light", "127.0.0.2", None),
        Provision("over", "127.0.0.3", 7, until_ns=1),
    )
    first, second, third, fourth = sender(), sender(), sender(), sender("127.0.0.2")
    for count in range(3):
        seq = 1000 + count
        reply = ask(first, port, stamp(seq, 7))
        assert struct.unpack("!I", reply[:4]) == (count,)
        assert struct.unpack("!I", reply[24:28]) == (seq,)
        assert reply[14:16] == b"\0\7"
        reply = ask(second, port, stamp(seq, 8))
        assert struct.unpack("!I", reply[:4]) == (seq,)
        assert reply[12] & 0x40  # Z
        assert abs(struct.unpack("!I", reply[16:20])[0] - time.time()) < 5
        reply = ask(third, port, signed(seq, 9, key))
        assert hmac.new(key, reply[:96], hashlib.sha256).digest()[:16] == reply[96:]
        assert struct.unpack("!I12x8x2xH", reply[:28]) == (count, 9)
        assert struct.unpack("!I", reply[48:52]) == (seq,)
        light = struct.pack("!I", seq) + ntp_now() + b"\0\1" + os.urandom(27)  # TWAMP-Test, RFC 5357 s4.1.2
        reply = ask(fourth, port, light)
        assert (len(reply), reply[24:28], reply[40]) == (41, light[:4], 64)
    others = [sender("127.0.0.3"), sender("127.0.0.9"), sender(), sender("127.0.0.2")]
    for near, data in zip(others, (stamp(0, 7), stamp(0, 7), stamp(0, 7), bytes(100)), strict=True):
        near.sendto(data, ("127.0.0.1", port))
    third.sendto(signed(5, 9, b"another"), ("127.0.0.1", port))
    fourth.sendto(bytes(14), ("127.0.0.1", port))
    assert len(ask(first, port, stamp(1003, 7))) == 44
    for near in others:
        near.setblocking(False)
        with pytest.raises(BlockingIOError):
            near.recv(1)
    lines.append(END)
    wait_for(lambda: sum("in all" in line for line in lines) == 6)
    said = "\n".join(lines)
    held = r", 1 from other ports not answered: held by port \d+ until it is silent for 0.5 s"
    assert re.search(r"stateful \(127.0.0.1, SSID 7\): in all: 4 answered" + held, said)
    assert "stateless (127.0.0.1, SSID 8): in all: 3 answered\n" in said
    assert "signed (127.0.0.1, SSID 9): in all: 3 answered, 1 wrongly signed\n" in said
    assert re.search(r"light \(127.0.0.2, SSID any\): in all: 3 answered, 1 malformed" + held, said)
    assert "over (127.0.0.3, SSID 7): in all: 1 over the rate or after the end; ended 1970-01-01T00:00:00Z\n" in said
    assert re.search(r"port \d+: in all: 1 from strangers\n", said)
    assert "light sends packets too short for any reply" in said
    assert "pad them to 41 octets" in said


@pytest.mark.loopback
def test_a_session_that_is_over_is_said_with_its_line(served: Any) -> None:
    both = "sessions:\n  - {name: a, source: 127.0.0.1, ssid: 7}\n  - name: b\n    source: 127.0.0.1\n    ssid: 8\n"
    _, lines = served(*parsed(both + "    until: 2020-01-01T00:00:00Z\n"))
    wait_for(lambda: len(lines) > 1)
    assert lines[1].startswith("senders.yaml:6: sessions#2.until: this instant is over: b (127.0.0.1) is not answered")
    assert len(lines) == 2


@pytest.mark.loopback
def test_follow_up_stamps_find_their_own_session(served: Any) -> None:
    port, _ = served(*(Provision(f"s{ssid}", "127.0.0.1", ssid) for ssid in (1, 2)))
    nears = {ssid: sender() for ssid in (1, 2)}
    tail = struct.pack("!BBH16x", 0x80, 7, 16)
    told: dict[int, list[int]] = {1: [], 2: []}
    for seq in range(6):
        for ssid in (1, 2) if seq < 3 else (2,):
            reply = ask(nears[ssid], port, stamp(seq, ssid) + tail)
            if any(reply[52:60]):
                told[ssid].append(struct.unpack("!I", reply[48:52])[0])
    assert told == {1: [0, 1], 2: [0, 1, 2, 3, 4]}


@pytest.mark.loopback
def test_scapys_stamp_packets_are_served(served: Any) -> None:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False
    import scapy.contrib.stamp as scapy_stamp

    port, _ = served(Provision("scapy", "127.0.0.1", 7))
    request = scapy_stamp.STAMPSessionSenderTestUnauthenticated(seq=12, ssid=7)
    reply = scapy_stamp.STAMPSessionReflectorTestUnauthenticated(ask(sender(), port, bytes(request)))
    assert (reply.seq, reply.seq_sender, reply.ssid, reply.ttl_sender) == (0, 12, 7, 64)
    assert reply.ts_sender == request.ts
    assert abs(float(reply.ts_rx) - float(reply.ts)) < 5


@pytest.mark.loopback
def test_the_command_serves_and_says_its_totals(tmp_path: Path) -> None:
    file = tmp_path / "senders.yaml"
    file.write_text("sessions:\n  - {name: near, source: 127.0.0.1, ssid: any}\n")
    command = [sys.executable, "-m", "linkqual", "agent", "--reflector-only", "--sessions", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        port = re.search(r"reflecting on 127.0.0.1 UDP port (\d+) for near", first)
        assert port is not None, first
        assert len(ask(sender(), int(port[1]), stamp(0, 0))) == 44
        running.send_signal(signal.SIGTERM)
        said, complaints = running.communicate(timeout=20)
    assert running.returncode == 0, complaints
    assert "near (127.0.0.1, SSID any): in all: 1 answered" in said


def test_a_file_or_port_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot bind"):
        foreign.serve([Provision("x", "127.0.0.1", 7)], "192.0.2.99", 0, print, lambda: True)
    command = [sys.executable, "-m", "linkqual", "agent", "--sessions", str(tmp_path / "none.yaml")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 2
    assert "go together" in ran.stderr
    ran = subprocess.run([*command, "--reflector-only"], capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 2
    assert "cannot read the sessions file" in ran.stderr
