"""Files of captures: every kind tcpdump writes, damaged ones, and what is no capture."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linkqual import capture
from linkqual.errors import InputError
from linkqual.reports import captures
from tests.capture.made import MS, Point, T, ethernet
from tests.capture.test_captured import golden

PACKETS = [(ns, ethernet(octets)) for ns, octets in golden(Point()).packets]


def pcap(packets: list[tuple[int, bytes]], *, nano: bool = True, order: str = "<", link: int = 1) -> bytes:
    step = 1 if nano else 1000
    data = struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)
    for ns, octets in packets:
        data += struct.pack(f"{order}IIII", ns // 10**9, ns % 10**9 // step, len(octets), len(octets)) + octets
    return data


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))


def pcapng(packets: list[tuple[int, bytes]], resolution: int = 9) -> bytes:
    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    data += block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHBxxx", 9, 1, resolution) + struct.pack("<HH", 0, 0))
    for ns, octets in packets:
        stamp = ns * 10**resolution // 10**9
        head = struct.pack("<IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(octets), len(octets))
        data += block(6, head + octets)
    return data + block(5, bytes(12))  # statistics of an interface: no packet


def recounted(path: Path, data: bytes) -> tuple[capture.Reading, list]:
    path.write_bytes(data)
    told = capture.Reading()
    found = capture.recount(path, told, 1000 * MS)
    return told, [each.summarizer.summary() for each in found.values()]


@pytest.mark.parametrize(
    "data",
    [
        pcap(PACKETS),
        pcap(PACKETS, nano=False),
        pcap(PACKETS, order=">"),
        pcap(PACKETS, nano=False, order=">"),
        gzip.compress(pcap(PACKETS)),
        pcapng(PACKETS),
        pcapng(PACKETS, 6),
        gzip.compress(pcapng(PACKETS)),
        pcap([(ns, octets[14:]) for ns, octets in PACKETS], link=101),
    ],
    ids=["ns", "us", "ns-big", "us-big", "gz", "ng-ns", "ng-us", "ng-gz", "raw"],
)
def test_every_kind_of_file_tells_the_same(tmp_path: Path, data: bytes) -> None:
    told, (summary,) = recounted(tmp_path / "c", data)
    assert (told.packets, told.stamp, told.damage, told.timeless) == (15, 15, "", 0)
    assert (summary.sent, summary.received, summary.lost) == (10, 5, 5)
    assert summary.round_trip_delay.maximum == 4 * MS
    assert (told.first_ns, told.last_ns) == (T, T + 90 * MS)


def test_what_could_be_read_of_a_file_that_is_cut_is_used(tmp_path: Path) -> None:
    for data in (pcap(PACKETS), pcapng(PACKETS), gzip.compress(pcap(PACKETS))):
        whole = len(data)
        for cut in (1, 5, 60, 130):
            told, _ = recounted(tmp_path / "c", data[: whole - cut])
            assert told.damage, (data[:4], cut)
            assert told.packets in (13, 14, 15) or data[:2] == b"\x1f\x8b"


@pytest.mark.parametrize(
    ("place", "value", "packets"),
    [
        (24 + 4, b"\xff\xff\xff\xff", 0),  # nanoseconds that reach a second
        (24 + 8, b"\xff\xff\xff\x7f", 0),  # a packet of two gigabytes
        (24 + 16 + 8, b"\xff\xff\xff\xff", 15),  # within a packet: its destination address, nobody notices
    ],
)
def test_damage_in_the_middle(tmp_path: Path, place: int, value: bytes, packets: int) -> None:
    data = bytearray(pcap(PACKETS))
    data[place : place + 4] = value
    told, _ = recounted(tmp_path / "c", bytes(data))
    assert told.packets == packets
    assert bool(told.damage) == (packets < 15)


def test_a_block_with_two_lengths_is_damage(tmp_path: Path) -> None:
    data = bytearray(pcapng(PACKETS))
    data[-28:-24] = b"\0\0\0\0"  # of the last packet's
    told, _ = recounted(tmp_path / "c", bytes(data))
    assert told.damage
    assert told.packets == 14
    data = bytearray(pcapng(PACKETS))
    second = len(block(0x0A0D0D0A, bytes(16)))
    data[second + 4 : second + 8] = b"\x04\0\0\0"
    told, _ = recounted(tmp_path / "c", bytes(data))
    assert told.damage
    assert told.packets == 0


@pytest.mark.parametrize("data", [b"", b"\xd4", b"no capture at all, but text", b"\x1f\x8bnot gzip", pcap([])[:20]])
def test_what_is_no_capture_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="no capture") as refusal:
        recounted(tmp_path / "c", data)
    assert "\n" not in refusal.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        capture.recount(tmp_path / "none", capture.Reading(), MS)
    with pytest.raises(InputError, match="directory"):
        capture.recount(tmp_path, capture.Reading(), MS)


def test_packets_of_more_sessions_than_are_kept_apart_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkqual.session.captured_sessions.MOST_SESSIONS", 1)
    one, other = Point(), Point(ssid=8)
    for point in (one, other):
        point.request(0, T)
        point.reply(0, 0, T + MS)
    file = tmp_path / "two.pcap"
    file.write_bytes(pcap([(ns, ethernet(packet)) for point in (one, other) for ns, packet in point.packets]))
    told = capture.Reading()
    found = capture.recount(file, told, capture.DEFAULT_TIMEOUT_NS)
    assert (len(found), told.stamp, told.beyond) == (1, 2, 2)
    assert "2 packets of further sessions were left out" in "\n".join(captures.as_text("two.pcap", told, found))
    assert captures.as_json("two.pcap", told, found)["beyond"] == 2


def test_link_types_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    told, found = recounted(tmp_path / "c", pcap(PACKETS, link=127))
    assert (told.unreadable, found) == ({127: 15}, [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_gives_counts_or_the_named_error(tmp_path: Path, data: st.DataObject) -> None:
    octets = bytearray(data.draw(st.sampled_from([pcap(PACKETS), pcapng(PACKETS), gzip.compress(pcap(PACKETS))])))
    for _ in range(data.draw(st.integers(1, 6))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(octets)))
    try:
        told, _ = recounted(tmp_path / "c", bytes(octets[:cut]))
    except InputError:
        return
    assert told.packets <= 16
