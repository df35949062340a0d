"""scapy's STAMP layer as a second opinion: what we write it reads, what it writes we read.

It knows the unauthenticated mode and no value of any TLV; timestamps of PTP it shows as one number, and writes them from octets only.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.wire import tlv, tlv_values
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat, ptp_from_ns
from linkqual.wire.tlv import Tlv

T = 1700000000 * 10**9
NTP_UNIX = 2208988800
WORDS = st.integers(0, 2**32 - 1)
SSIDS = st.integers(0, 0xFFFF)
INSTANTS = st.integers(0, 2**32 * 10**9 - 1)
ERRORS = st.builds(
    ErrorEstimate, st.booleans(), st.sampled_from(TimestampFormat), st.integers(0, 63), st.integers(1, 255)
)
TLVS = st.lists(st.builds(Tlv, st.integers(0, 255), st.binary(max_size=20), st.integers(0, 255)), max_size=4)


@pytest.fixture(scope="module")
def scapy_stamp() -> Any:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False
    import scapy.contrib.stamp as contrib

    return contrib


def same_tlvs(seen: Any, tlvs: list[Tlv]) -> bool:
    told = [(int(item.flags), item.type, item.len, bytes(item)[4:]) for item in seen.tlv_objects]
    return told == [(item.flags, item.type, len(item.value), item.value) for item in tlvs]


def same_error(seen: Any, error: ErrorEstimate) -> bool:
    return (seen.S, seen.Z, seen.scale, seen.multiplier) == (
        error.synchronised,
        error.form,
        error.scale,
        error.multiplier,
    )


def instant(seen: float, form: TimestampFormat, ns: int) -> None:
    if form is TimestampFormat.PTP:
        assert int(seen) == ptp_from_ns(ns)
    else:
        assert float(seen) == pytest.approx((ns / 1e9 + NTP_UNIX) % 2**32, abs=2e-6)


@settings(max_examples=60, deadline=None)
@given(number=WORDS, ns=INSTANTS, error=ERRORS, ssid=SSIDS, tlvs=TLVS)
def test_it_reads_our_requests(
    scapy_stamp: Any, number: int, ns: int, error: ErrorEstimate, ssid: int, tlvs: list[Tlv]
) -> None:
    octets = SenderPacket(number, ns, error, ssid, tlv.encode(tlvs)).encode()
    seen = scapy_stamp.STAMPSessionSenderTestUnauthenticated(octets)
    assert (seen.seq, seen.ssid, seen.mbz) == (number, ssid, 0)
    assert same_error(seen.err_estimate, error)
    assert same_tlvs(seen, tlvs)
    assert bytes(seen) == octets


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.tuples(WORDS, WORDS), ns=INSTANTS, errors=st.tuples(ERRORS, ERRORS), ttl=st.integers(0, 255), tlvs=TLVS
)
def test_it_reads_our_replies(
    scapy_stamp: Any,
    numbers: tuple[int, int],
    ns: int,
    errors: tuple[ErrorEstimate, ErrorEstimate],
    ttl: int,
    tlvs: list[Tlv],
) -> None:
    packet = ReflectorPacket(
        numbers[0], T + 9, errors[0], 0x1234, T + 5, numbers[1], ns, errors[1], ttl, tlv.encode(tlvs)
    )
    seen = scapy_stamp.STAMPSessionReflectorTestUnauthenticated(packet.encode())
    assert (seen.seq, seen.ssid, seen.seq_sender, seen.ttl_sender) == (numbers[0], 0x1234, numbers[1], ttl)
    assert (seen.mbz1, seen.mbz2) == (0, 0)
    assert same_error(seen.err_estimate, errors[0])
    assert same_error(seen.err_estimate_sender, errors[1])
    instant(seen.ts_rx, errors[0].form, T + 5)
    instant(seen.ts, errors[0].form, T + 9)
    instant(seen.ts_sender, errors[1].form, ns)
    assert same_tlvs(seen, tlvs)
    assert bytes(seen) == packet.encode()


def theirs(scapy_stamp: Any, error: ErrorEstimate) -> Any:
    return scapy_stamp.ErrorEstimate(S=error.synchronised, Z=error.form, scale=error.scale, multiplier=error.multiplier)


def their_ptp(ns: int) -> Any:
    from scapy.fields import RawVal

    return RawVal(ptp_from_ns(ns).to_bytes(8))


def their_tlvs(scapy_stamp: Any, tlvs: list[Tlv]) -> list[Any]:
    return [
        scapy_stamp.STAMPTestTLV(flags=item.flags, type=item.type, len=len(item.value), value=item.value)
        for item in tlvs
    ]


@settings(max_examples=60, deadline=None)
@given(number=WORDS, ssid=SSIDS, error=ERRORS, tlvs=TLVS)
def test_we_read_its_requests(scapy_stamp: Any, number: int, ssid: int, error: ErrorEstimate, tlvs: list[Tlv]) -> None:
    time = their_ptp(T + 250_000_000) if error.form is TimestampFormat.PTP else T / 1e9 + NTP_UNIX + 0.25
    raw = scapy_stamp.STAMPSessionSenderTestUnauthenticated(
        seq=number,
        ts=time,
        ssid=ssid,
        err_estimate=theirs(scapy_stamp, error),
        tlv_objects=their_tlvs(scapy_stamp, tlvs),
    )
    packet = SenderPacket.decode(bytes(raw))
    assert packet == SenderPacket(number, T + 250_000_000, error, ssid, tlv.encode(tlvs))
    assert list(tlv.parse(packet.tail)) == tlvs


def test_we_read_its_replies(scapy_stamp: Any) -> None:
    mine, other = ErrorEstimate(True, TimestampFormat.NTP, 3, 9), ErrorEstimate(False, TimestampFormat.PTP, 1, 1)
    told = [
        Tlv(4, tlv_values.ClassOfService(46, 34, 1, 1).encode(), 0),
        Tlv(5, tlv_values.DirectMeasurement(8, 7, 6).encode(), 0),
        Tlv(7, tlv_values.FollowUp(4, 0xE8FE6F8020000000, 2).encode(), 0),
    ]
    raw = scapy_stamp.STAMPSessionReflectorTestUnauthenticated(
        seq=2**32 - 1,
        ts=T / 1e9 + NTP_UNIX + 0.75,
        ts_rx=T / 1e9 + NTP_UNIX + 0.5,
        ts_sender=their_ptp(T),
        seq_sender=3,
        ssid=77,
        ttl_sender=253,
        err_estimate=theirs(scapy_stamp, mine),
        err_estimate_sender=theirs(scapy_stamp, other),
        tlv_objects=their_tlvs(scapy_stamp, told),
    )
    packet = ReflectorPacket.decode(bytes(raw))
    assert packet == ReflectorPacket(
        2**32 - 1, T + 750_000_000, mine, 77, T + 500_000_000, 3, T, other, 253, tlv.encode(told)
    )
    assert tlv.read_reply(packet.tail) == tuple(told)
