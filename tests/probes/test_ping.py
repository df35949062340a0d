"""ping of loopback for real, and what it writes on lines that misbehave."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import pytest

from linkqual.model import Fault, PingResult, Step
from linkqual.probes import ping
from linkqual.probes.bench import Bench


def step(**params: Any) -> Step:
    known = {"count": 3, "interval_ns": 50_000_000, "packet_bytes": 56, "timeout_ns": 1_000_000_000}
    return Step("ping", "ping", known | params, duration_ns=2_000_000_000)


def result(text: str) -> PingResult:
    found = ping.read(text)
    assert isinstance(found, PingResult), found
    return found


@pytest.mark.loopback
@pytest.mark.parametrize(("address", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_loopback(address: str, family: socket.AddressFamily) -> None:
    raw: dict[str, str | bytes] = {}
    told: list[Any] = []
    bench = Bench(address, address, family, save_raw=raw.__setitem__, progress=told.append)
    measured = ping.measure(step(), bench)
    assert measured.fault is None
    found = measured.ping
    assert found is not None
    assert (found.sent, found.received, found.unanswered, found.errors) == (3, 3, (), 0)
    assert len(found.rtt_ns) == 3
    assert found.rtt_min_ns == min(found.rtt_ns) > 0
    assert found.rtt_max_ns == max(found.rtt_ns)
    assert "ping statistics" in str(raw["ping.txt"])
    assert told[-1].total == 3


@pytest.mark.loopback
def test_an_interrupt_keeps_what_was_measured() -> None:
    begun = time.monotonic()
    bench = Bench("127.0.0.1", interrupted=lambda: time.monotonic() - begun > 0.5)
    measured = ping.measure(step(count=1000, interval_ns=100_000_000), bench)
    assert measured.fault is not None
    assert measured.fault.kind == "interrupted"
    assert measured.ping is not None
    assert 1 <= measured.ping.received <= 20


@pytest.mark.loopback
def test_a_watchdog_ends_a_ping_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ping, "OVERTIME_S", 0.2)
    asked = Step("ping", "ping", step(count=1000, interval_ns=100_000_000).params, duration_ns=0)
    measured = ping.measure(asked, Bench("127.0.0.1"))
    assert measured.fault is not None
    assert measured.fault.kind == "timeout"
    assert measured.ping is not None


def test_no_ping_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    fault = ping.measure(step(), Bench("127.0.0.1")).fault
    assert fault is not None
    assert fault.kind == "missing-program"
    assert "iputils-ping" in fault.hint


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ping: connect: Network is unreachable", "unreachable"),
        ("ping: no-such.invalid: Name or service not known", "unreachable"),
        ("ping: socket: Operation not permitted", "no-capability"),
        ("ping: cannot flood; minimal interval allowed for user is 2ms", "no-capability"),
        ("ping: invalid option -- 'D'\nusage: ping [-AaDdfnoQqRrv]", "missing-program"),
        ("ping: something never heard of", "failed"),
        ("", "failed"),
    ],
)
def test_a_ping_that_cannot_begin(said: str, kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ping"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    measured = ping.measure(step(), Bench("127.0.0.1"))
    assert measured.ping is None
    assert measured.fault is not None
    assert measured.fault.kind == kind
    assert measured.fault.hint


LOSSY = """\
PING 10.9.9.2 (10.9.9.2) 56(84) bytes of data.
[1796024589.749017] no answer yet for icmp_seq=1
[1796024589.750351] 64 bytes from 10.9.9.2: icmp_seq=2 ttl=64 time=0.406 ms
[1796024590.356074] no answer yet for icmp_seq=3
[1796024590.356497] 64 bytes from 10.9.9.2: icmp_seq=4 ttl=64 time=0.068 ms

--- 10.9.9.2 ping statistics ---
5 packets transmitted, 2 received, 60% packet loss, time 1230ms
rtt min/avg/max/mdev = 0.068/0.237/0.406/0.169 ms
"""

LATE = """\
PING 10.9.9.2 (10.9.9.2) 56(84) bytes of data.
[1796024589.749017] no answer yet for icmp_seq=1
[1796024589.750351] 64 bytes from 10.9.9.2: icmp_seq=1 ttl=64 time=406 ms
[1796024590.356497] 64 bytes from 10.9.9.2: icmp_seq=2 ttl=64 time=68.1 ms

--- 10.9.9.2 ping statistics ---
2 packets transmitted, 2 received, 0% packet loss, time 1230ms
rtt min/avg/max/mdev = 68.100/237.050/406.000/168.950 ms, pipe 2
"""

ODD = """\
PING 10.9.9.2 (10.9.9.2) 56(84) bytes of data.
[1796024042.663348] 64 bytes from 10.9.9.2: icmp_seq=1 ttl=64 time=0.728 ms
[1796024042.663449] 64 bytes from 10.9.9.2: icmp_seq=1 ttl=64 time=0.828 ms (DUP!)
[1796024042.864748] no answer yet for icmp_seq=2
[1796024043.069170] 64 bytes from 10.9.9.2: icmp_seq=3 ttl=64 time=12 ms
wrong data byte #20 should be 0x14 but was 0x15
#16\t10 11 12 13 15
[1796024043.286264] From 10.9.9.1 icmp_seq=4 Destination Host Unreachable

--- 10.9.9.2 ping statistics ---
4 packets transmitted, 2 received, +1 duplicates, +1 corrupted, +1 errors, 50% packet loss, time 406ms
rtt min/avg/max/mdev = 0.728/6.364/12.000/5.636 ms
"""

DEAD = """\
PING 10.66.0.1 (10.66.0.1) 56(84) bytes of data.
[1796024592.649471] From 10.9.9.2 icmp_seq=1 Destination Host Unreachable
[1796024592.980111] no answer yet for icmp_seq=1
[1796024592.980228] From 10.9.9.2 icmp_seq=2 Destination Host Unreachable

--- 10.66.0.1 ping statistics ---
3 packets transmitted, 0 received, +2 errors, 100% packet loss, time 651ms

"""


def test_the_last_one_lost_is_unanswered_too() -> None:
    found = result(LOSSY)
    assert (found.sent, found.received, found.unanswered) == (5, 2, (1, 3, 5))
    assert found.rtt_ns == (406_000, 68_000)
    assert (found.rtt_min_ns, found.rtt_avg_ns, found.rtt_mdev_ns) == (68_000, 237_000, 169_000)


def test_a_late_answer_is_an_answer() -> None:
    found = result(LATE)
    assert (found.received, found.unanswered) == (2, ())
    assert found.rtt_ns == (406_000_000, 68_100_000)


def test_duplicates_corruption_and_errors_are_counted() -> None:
    found = result(ODD)
    assert (found.duplicates, found.corrupted, found.errors) == (1, 1, 1)
    assert found.unanswered == (2, 4)
    assert found.rtt_ns == (728_000, 12_000_000)


def test_no_answer_at_all_is_a_result() -> None:
    found = result(DEAD)
    assert (found.sent, found.received, found.errors, found.unanswered) == (3, 0, 2, (1, 2, 3))
    assert (found.rtt_ns, found.rtt_min_ns) == ((), None)


@pytest.mark.parametrize("text", ["garbage", LOSSY[:60], LOSSY.partition("---")[0], LOSSY[: LOSSY.index("5 packets")]])
def test_a_text_cut_short_is_damage(text: str) -> None:
    found = ping.read(text)
    assert isinstance(found, Fault)
    assert found.kind == "damaged-output"
