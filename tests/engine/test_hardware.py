"""Stamps of the network card, by fakes: ancillary data, a driver's answers, and a session that gets both kinds. Untested on hardware."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
from dataclasses import asdict

import numpy as np
import pytest

from linkqual.net import card_clock as card_module
from linkqual.net import drive as drive_module
from linkqual.net.card_clock import CardClock, card_clock, card_of
from linkqual.net.messages import (
    MessageBlock,
    SentStamps,
    error_ancillary,
    joined,
    received_ancillary,
    received_card,
)
from linkqual.net.process import CHUNK, REPORT, Inbox, Outbox
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import CHUNK_HEAD, SenderConfig
from linkqual.net.sockets import StampedSocket
from linkqual.records import ABSENT, RECORD, Fate, Records, Stamp
from linkqual.session.hardware import source
from linkqual.session.sender import SenderSession, SenderSettings
from linkqual.stats import delay
from linkqual.wire.stamp import reflector_rows, request_template
from linkqual.wire.timestamp import ErrorEstimate, ntp_column

MS = 1_000_000
UTC = 1_800_000_000 * 10**9
CARD = -777 * 10**9  # the card's clock is minutes beside UTC
BOTH = Stamp.T1_HARDWARE | Stamp.T4_HARDWARE


# ---- ancillary data


def cmsg(level: int, kind: int, data: bytes) -> bytes:
    head = struct.pack("=QII", 16 + len(data), level, kind)
    return (head + data).ljust(-(-(16 + len(data)) // 8) * 8, b"\0")


def instants(kernel_ns: int, card_ns: int) -> bytes:
    return cmsg(1, 37, b"".join(struct.pack("=qq", *divmod(ns, 10**9)) for ns in (kernel_ns, 0, card_ns)))


def block_of(*messages: bytes) -> MessageBlock:
    block = MessageBlock(len(messages), 64)
    for row, data in enumerate(messages):
        block.control[row, : len(data)] = np.frombuffer(data, np.uint8)
        block.control_lengths[row] = len(data)
    return block


def test_the_third_instant_of_a_received_message_is_the_cards() -> None:
    rest = cmsg(0, 2, struct.pack("=i", 61)) + cmsg(0, 1, b"\x10")
    block = block_of(instants(UTC, 5_000_000_007) + rest, instants(UTC + 1, 0) + rest, rest)
    assert received_card(block, 3).tolist() == [5_000_000_007, ABSENT, ABSENT]
    stamps, ttl, _ = received_ancillary(block, 3)
    assert stamps.tolist() == [UTC, UTC + 1, ABSENT]
    assert ttl.tolist() == [61, 61, 61]


def test_a_sent_packet_has_two_messages_one_of_the_kernel_and_one_of_the_card() -> None:
    def told(number: int, kernel_ns: int, card_ns: int) -> bytes:
        error = struct.pack("=IBBBBII", 42, 4, 0, 0, 0, 0, number) + bytes(16)
        return instants(kernel_ns, card_ns) + cmsg(0, 11, error)

    refused = cmsg(0, 11, struct.pack("=IBBBBII", 111, 2, 3, 3, 0, 0, 0) + bytes(16))
    block = block_of(told(8, UTC, 0), told(8, 0, 900), told(9, UTC + 5, 0), refused, told(9, 0, 950))
    found = error_ancillary(block, 5, card=True)
    assert (found.ids.tolist(), found.stamps.tolist()) == ([8, 9], [UTC, UTC + 5])
    assert (found.card_ids.tolist(), found.card_stamps.tolist()) == ([8, 9], [900, 950])
    assert found.errnos == [111]
    twice = joined([found, found])
    assert twice.ids.tolist() == twice.card_ids.tolist() == [8, 9, 8, 9]
    assert twice.errnos == [111, 111]


# ---- the driver's answers

INFO = struct.Struct("=IIiI12xI12x")
ABLE = INFO.pack(0x41, 127, 0, 0b11, 0b11)


@pytest.mark.parametrize(
    ("info", "config", "expected"),
    [
        (ABLE, (0, 1, 1), CardClock("eth7", True, True)),
        (ABLE, (0, 1, 12), CardClock("eth7", True, False)),  # PTP packets only: ours would go unstamped
        (ABLE, (0, 0, 0), CardClock("eth7", True, False)),
        (ABLE, None, CardClock("eth7", True, None)),
        (INFO.pack(0x41, 127, 0, 0b11, 0b1000000000001), (0, 1, 12), CardClock("eth7", False, False)),
        (INFO.pack(0x41, 24, -1, 0, 0), (0, 0, 0), CardClock("eth7", False, False)),  # software only
        (None, None, CardClock("eth7", False, False)),
    ],
)
def test_what_a_driver_says_of_its_stamps(
    monkeypatch: pytest.MonkeyPatch, info: bytes | None, config: tuple[int, int, int] | None, expected: CardClock
) -> None:
    def ioctl(_descriptor: int, request: int, argument: bytes) -> None:
        name, pointer = struct.unpack("=16sQ8x", argument)
        assert name.rstrip(b"\0") == b"eth7"
        answer = {0x8946: info, 0x89B1: config and struct.pack("=iii", *config)}[request]
        if answer is None:
            raise OSError(95, "not supported")
        ctypes.memmove(pointer, answer, len(answer))

    monkeypatch.setattr(card_module.fcntl, "ioctl", ioctl)
    found = card_clock("eth7")
    assert found == expected
    assert found.worth_asking == (expected.able and expected.on is not False)
    assert bool(found.said()["hint"]) == (expected.able and not expected.on)


def test_the_loopback_interface_has_no_card() -> None:
    assert card_of("127.0.0.1") is None


def test_a_socket_that_asks_a_card_for_stamps_keeps_the_kernels() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.1", 0))
        near = StampedSocket("127.0.0.1", peer=far.getsockname())
        near.stamp_by_card()
        for _ in range(5):
            assert near.send(b"hello") == 0
        told = near.sent_stamps()
        assert len(told.ids) == 5
        assert len(told.card_ids) == 0  # loopback has none
        near.close()


# ---- a session


def session(card: list[tuple[int, int]]) -> Records:
    """One packet a row: when the card saw it leave and its reply come, after the kernel's UTC and UTC + 1000 us; -1: not at all."""
    count = len(card)
    sender = SenderSession(SenderSettings(7, 44, 500 * MS, 100 * MS, 0, 1024, 1024, follow_up=False, hardware=True))
    sender.depart(np.full(count, UTC), UTC, 0)
    numbers = np.arange(count)
    sender.transmitted(numbers, np.full(count, UTC))
    left, came = (np.array(column) for column in zip(*card, strict=True))
    sender.timed(numbers[left >= 0], left[left >= 0] + CARD)
    packets = np.tile(request_template(44, ssid=7, error=ErrorEstimate.of(1000)), (count, 1))
    replies = reflector_rows(packets)
    replies["sender_sequence"] = replies["sequence"] = numbers
    replies["sender_error"] = replies["error"]
    replies["receive_timestamp"] = replies["timestamp"] = ntp_column(np.full(count, UTC + 400_000))
    blank = np.zeros(count, np.uint8)
    arrived = np.where(came >= 0, came + CARD, ABSENT)
    sender.receive(packets, np.full(count, UTC + MS), blank, blank, UTC + MS, MS, arrived)
    records = sender.settle(2 * MS)
    assert sender.counters.card_timed == int((records["stamps"] & BOTH != 0).sum())
    return records


def test_the_card_times_the_round_trip_and_the_kernel_says_when() -> None:
    records = session([(2_000, 990_000), (3_000, 970_000)])
    assert (records["stamps"] & BOTH == BOTH).all()
    assert delay.round_trip(records, Stamp(0)).tolist() == [988_000, 967_000]
    assert (records["sent_ns"] == UTC).all()
    assert (delay.forward(records, Stamp(0)) == 400_000).all()


@pytest.mark.parametrize(
    "card",
    [
        (-1, 990_000),  # the card did not stamp it on the way out
        (2_000, -1),  # or on the way in
        (2_000, 990_000 + 5 * MS),  # its clock was stepped on
        (2_000 + 30 * MS, 990_000 + 5 * MS),  # back
        (2_000 + 900_000_000_000, 990_000),  # or another card saw the reply
    ],
)
def test_without_both_stamps_of_one_clock_the_kernels_stand(card: tuple[int, int]) -> None:
    records = session([card, (2_000, 990_000)])
    assert records["stamps"].tolist() == [Stamp.T1_KERNEL | Stamp.T2_KERNEL | Stamp.T4_KERNEL, *records["stamps"][1:]]
    assert delay.round_trip(records, Stamp(0)).tolist() == [MS, 988_000]


def test_sources_are_named_with_their_shares() -> None:
    assert source(100, 100, 0) == "kernel"
    assert source(100, 100, 100) == "hardware"
    assert source(100, 0, 0) == source(0, 0, 0) == "user"
    assert source(1000, 990, 900) == "hardware 90.0 %, kernel 9.0 %, user 1.0 %"
    assert source(100_000, 99_999, 0) == "kernel 99.999 %, user 0.001 %"


# ---- the sender's loop, with a card made up


@pytest.mark.loopback
def test_the_senders_loop_brings_a_cards_stamps_to_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up card stamps 200 ns after the kernel on the way out and 300 ns before it on the way in, but every tenth packet."""
    kernels: dict[int, int] = {}

    def sent_stamps(self: StampedSocket) -> SentStamps:
        told = plain(self)
        kernels.update(zip(told.ids.tolist(), told.stamps.tolist(), strict=True))
        some = told.ids % 10 != 0
        return told._replace(card_ids=told.ids[some], card_stamps=told.stamps[some] + CARD + 200)

    plain = StampedSocket.sent_stamps
    monkeypatch.setattr(StampedSocket, "sent_stamps", sent_stamps)
    monkeypatch.setattr(drive_module, "card_of", lambda _address: CardClock("card0", able=True, on=True))
    monkeypatch.setattr(drive_module, "received_card", lambda block, n: received_ancillary(block, n)[0] + CARD - 300)
    reading, writing = os.pipe()
    silence, keep = os.pipe()
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7)) as reflector:
        config = SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=4000, packets=400)
        outbox = Outbox(writing)
        drive_module.drive(asdict(config), Inbox(silence), outbox)
        outbox.drain()
    os.close(writing)
    with os.fdopen(reading, "rb") as frames:
        data = frames.read()
    os.close(silence)
    os.close(keep)
    rows, report = [], {}
    while data:
        kind, length = struct.unpack_from("<cI", data)
        payload, data = data[5 : 5 + length], data[5 + length :]
        if kind == CHUNK:
            rows.append(np.frombuffer(payload, RECORD, offset=CHUNK_HEAD.size))
        elif kind == REPORT:
            report = json.loads(payload)
    records = np.concatenate(rows)
    assert (records["fate"] == Fate.RECEIVED).all()
    by_card = records["stamps"] & BOTH == BOTH
    assert by_card.tolist() == [seq % 10 != 0 for seq in range(400)]
    assert records["sent_ns"].tolist() == [kernels[seq] for seq in range(400)]
    assert report["card_timed"] == 360
    assert report["t1_source"] == report["t4_source"] == "hardware 90.0 %, kernel 10.0 %"
    assert report["card"] == {"interface": "card0", "stamps": True, "hint": None}
