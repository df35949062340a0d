"""ICMP errors: our reader against scapy's bytes and scapy's reader, and against any bytes."""

from __future__ import annotations

import contextlib
import socket
import struct
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import WireError
from linkqual.model import Fault, Hop, Trace
from linkqual.net import trace_scapy
from linkqual.wire import icmp, trace_json, trace_probe
from linkqual.wire.icmp import Cause, Label


@dataclass(frozen=True)
class Flow:
    """What every probe of a trace shares."""

    family: int
    source: str
    destination: str
    source_port: int
    destination_port: int
    tos: int = 0


LABELS = (Label(24001, 2, False, 1), Label(16, 0, True, 3))
V4 = Flow(socket.AF_INET, "10.0.0.1", "10.9.0.1", 40001, 33440)
V6 = Flow(socket.AF_INET6, "fd00::1", "fd00::9", 40001, 33440)


def probe_of(flow: Flow, ttl: int, payload: bytes, record_route: bool = False) -> bytes:
    """A UDP probe from its IP header on, as scapy writes it; with the Record Route option when asked for (IPv4)."""
    layers: Any = trace_scapy._layers()
    if flow.family == socket.AF_INET6:
        head = layers.inet6.IPv6(src=flow.source, dst=flow.destination, hlim=ttl, tc=flow.tos)
    else:
        head = layers.inet.IP(src=flow.source, dst=flow.destination, ttl=ttl, flags="DF", id=len(payload), tos=flow.tos)
        if record_route:
            head.options = [layers.inet.IPOption_RR(length=39, routers=["0.0.0.0"] * 9), layers.inet.IPOption_EOL()]
    return bytes(head / layers.inet.UDP(sport=flow.source_port, dport=flow.destination_port) / layers.raw(payload))


def extension(labels: tuple[Label, ...] = LABELS, checksum: bool = True) -> bytes:
    """RFC 4884 structure with one RFC 4950 object, as scapy writes it."""
    layers: Any = trace_scapy._layers()
    stack = [
        layers.mpls.MPLS(label=item.label, cos=item.traffic_class, s=int(item.bottom), ttl=item.ttl) for item in labels
    ]
    octets = bytes(layers.inet.ICMPExtension_Header() / layers.mpls.ICMPExtension_MPLS(stack=stack))
    return octets if checksum else octets[:2] + b"\0\0" + octets[4:]


def message(flow: Flow, quote: bytes, *, length: int = 0, code: int = 0, kind: int | None = None) -> bytes:
    """An ICMP error from its type on; `length` in octets of the quote, 0: not said."""
    if flow is V6:
        return struct.pack("!BBHBBH", 3 if kind is None else kind, code, 0, length // 8, 0, 0) + quote
    return struct.pack("!BBHBBH", 11 if kind is None else kind, code, 0, 0, length // 4, 0) + quote


def read(flow: Flow, octets: bytes) -> icmp.IcmpError:
    return icmp.parse_v6(octets) if flow is V6 else icmp.parse_v4(octets)


@pytest.mark.parametrize("flow", [V4, V6])
@pytest.mark.parametrize("payload_bytes", [22, 200])
@pytest.mark.parametrize("length", [0, 128])
def test_labels_behind_short_and_long_quotes_said_and_unsaid(flow: Flow, payload_bytes: int, length: int) -> None:
    probe = probe_of(flow, 1, bytes(payload_bytes))
    octets = message(flow, probe[:128].ljust(128, b"\0") + extension(), length=length)
    found = read(flow, octets)
    assert found == trace_scapy.parse(flow.family, octets)
    assert (found.cause, found.labels) == (Cause.TTL, LABELS)
    quote = found.quote
    assert (quote.source, quote.destination) == (flow.source, flow.destination)
    assert (quote.source_port, quote.destination_port, quote.ttl) == (40001, 33440, 1)
    assert quote.udp_bytes == payload_bytes + 8
    assert str(found.labels[0]) == "label=24001 tc=2 s=0 ttl=1"


def test_an_unchecked_extension_needs_a_stated_length() -> None:
    quote = probe_of(V4, 1, bytes(30)).ljust(128, b"\0")
    said, unsaid = (message(V4, quote + extension(checksum=False), length=length) for length in (128, 0))
    assert icmp.parse_v4(said).labels == LABELS
    assert icmp.parse_v4(unsaid).labels == ()


def test_a_damaged_extension_shows_no_labels() -> None:
    quote = probe_of(V4, 1, bytes(30)).ljust(128, b"\0")
    damaged = bytearray(message(V4, quote + extension(), length=128))
    damaged[-1] ^= 1
    assert icmp.parse_v4(bytes(damaged)).labels == ()


@pytest.mark.parametrize("length", [0, 2, 3, 200])
def test_an_object_of_impossible_length_ends_the_extensions(length: int) -> None:
    structure = b"\x20\0\0\0" + struct.pack("!HBB", length, 9, 9) + extension()[4:]
    assert icmp.labels(bytes(8 + 128) + structure, 128) == ()
    assert icmp.labels(bytes(8 + 128) + structure[:4] + struct.pack("!HBB", 4, 9, 9) + structure[8:], 128) == LABELS


def test_a_quote_of_the_udp_header_alone_is_enough() -> None:
    probe = probe_of(V4, 1, trace_probe.encode(17))
    for found in (icmp.parse_v4(message(V4, probe[:28])), trace_scapy.parse(V4.family, message(V4, probe[:28]))):
        assert trace_probe.number_of_length(found.quote.udp_bytes) == 17


@pytest.mark.parametrize(
    ("flow", "kind", "code", "cause"),
    [
        (V4, 11, 0, Cause.TTL),
        (V4, 3, 3, Cause.PORT),
        (V4, 3, 1, Cause.NO_ROUTE),
        (V4, 3, 13, Cause.REFUSED),
        (V6, 3, 0, Cause.TTL),
        (V6, 1, 4, Cause.PORT),
        (V6, 1, 0, Cause.NO_ROUTE),
        (V6, 1, 1, Cause.REFUSED),
    ],
)
def test_what_type_and_code_mean(flow: Flow, kind: int, code: int, cause: Cause) -> None:
    octets = message(flow, probe_of(flow, 1, bytes(30)), kind=kind, code=code)
    assert read(flow, octets).cause is cause
    assert trace_scapy.parse(flow.family, octets).cause is cause


def test_other_messages_are_refused() -> None:
    echo = bytes([0, 0, 0, 0, 0, 1, 0, 1]) + bytes(56)
    tcp = bytearray(probe_of(V4, 1, bytes(30)))
    tcp[9] = 6
    for octets in (b"", echo, message(V4, bytes(tcp)), message(V4, b"")):
        with pytest.raises(WireError):
            icmp.parse_v4(octets)
        with pytest.raises(WireError):
            trace_scapy.parse(V4.family, octets)


def test_record_route_as_scapy_and_we_write_it() -> None:
    """Three of nine places filled, the way routers fill them."""
    layers: Any = trace_scapy._layers()
    probe = probe_of(V4, 3, bytes(30), True)
    assert probe[20:60] == icmp.RECORD_ROUTE
    passed = layers.inet.IP(probe)
    option = passed.options[0]
    option.routers = ["10.0.1.1", "10.0.2.1", "10.0.3.1", *option.routers[3:]]
    option.pointer = 16
    told = icmp.recorded(bytes(passed)[20:60])
    assert told == ("10.0.1.1", "10.0.2.1", "10.0.3.1")
    assert icmp.recorded(bytes([1, 1]) + bytes(passed)[20:60]) == told
    assert icmp.recorded(b"") == icmp.recorded(bytes(passed)[20:40]) == ()
    answer = trace_probe.reply(trace_probe.encode(3, trace_probe.ROOM), told)
    assert trace_probe.recorded_of_reply(answer) == told
    assert trace_probe.number_of_reply(answer) == 3
    assert trace_probe.recorded_of_reply(trace_probe.reply(trace_probe.encode(3), told)) == ()  # no room


@settings(max_examples=200)
@given(st.binary(max_size=220), st.sampled_from([0, 1, 3, 11]))
def test_any_bytes(data: bytes, kind: int) -> None:
    for octets in (data, bytes([kind]) + data, bytes([kind, 0, 0, 0, 0, 32, 0, 0, 0x4F]) + data):
        for read_one in (icmp.parse_v4, icmp.parse_v6):
            with contextlib.suppress(WireError):
                read_one(octets)
        for family in (V4.family, V6.family):
            with contextlib.suppress(WireError):
                trace_scapy.parse(family, octets)


@settings(max_examples=100)
@given(st.binary(max_size=40), st.integers(0, 255))
def test_any_options_and_extensions(octets: bytes, length: int) -> None:
    ihl = 5 + len(octets) // 4
    options = octets[: 4 * (ihl - 5)]
    probe = probe_of(V4, 1, bytes(30))
    quote = bytes([0x40 | ihl]) + probe[1:20] + options + probe[20:]
    assert icmp.parse_v4(message(V4, quote)).quote.destination == "10.9.0.1"
    icmp.recorded(octets)
    assert icmp.labels(message(V4, quote.ljust(128, b"\0") + b"\x20\0\0\0" + octets, length=128), length) is not None


# ---- probes and their answers


def test_a_probe_and_its_answer() -> None:
    for number in (0, 1, 89, trace_probe.MAX_NUMBER):
        payload = trace_probe.encode(number)
        assert trace_probe.number_of_quote(payload[:30]) == number
        assert trace_probe.number_of_length(len(payload) + 8) == number
        answer = trace_probe.reply(payload)
        assert len(answer) == len(payload)
        assert trace_probe.number_of_reply(answer) == number
        with pytest.raises(WireError):
            trace_probe.reply(answer)
    assert len(trace_probe.encode(trace_probe.MAX_NUMBER)) + 48 <= 1280


@given(st.binary(max_size=64))
def test_any_datagram(data: bytes) -> None:
    for read_one in (
        trace_probe.number_of_quote,
        trace_probe.number_of_reply,
        trace_probe.recorded_of_reply,
        trace_probe.reply,
    ):
        with contextlib.suppress(WireError):
            read_one(data)


@pytest.mark.parametrize("flow", [V4, V6])
@pytest.mark.parametrize("tos", [0, 1, 0xB8, 0xBB, 0xFF])
def test_the_quoted_octet_of_dscp_and_ecn(flow: Flow, tos: int) -> None:
    probe = probe_of(replace(flow, tos=tos), 1, bytes(40))
    octets = message(flow, probe)
    assert read(flow, octets).quote.tos == trace_scapy.parse(flow.family, octets).quote.tos == tos


# ---- a trace on the control channel

TRACE = Trace(
    "10.0.0.1",
    "10.9.0.1",
    40001,
    33434,
    (
        Hop(1, "10.0.0.2", (1_200_000,), 1, 1, ("label=16 tc=0 s=1 ttl=1",), 64, 1, False, ("10.0.0.6",), "10.0.1.1"),
        Hop(2, "10.0.0.10", (1_300_000,), 1, 1, quoted_tos=184),
        Hop(3, None, sent=3),
    ),
    Fault("unreachable", "no answer", "open the port"),
)


def test_a_trace_survives_json() -> None:
    import json

    assert trace_json.decode(json.loads(json.dumps(trace_json.encode(TRACE)))) == TRACE


def test_a_zone_of_the_far_end_is_not_taken_over() -> None:
    hop = Hop(1, "fe80::1%\x1b[2J", (1,), 1, 1)
    found = trace_json.decode(trace_json.encode(replace(TRACE, source="fe80::9%eth0", hops=(hop,))))
    assert (found.source, found.hops[0].address) == ("fe80::9", "fe80::1")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("source",), "nowhere"),
        (("source_port",), 70000),
        (("source_port",), True),
        (("hops",), "none"),
        (("hops",), [{}] * 300),
        (("hops", 0, "ttl"), 256),
        (("hops", 0, "ttl"), 1.5),
        (("hops", 0, "address"), "<script>"),
        (("hops", 0, "rtt_ns"), [-1]),
        (("hops", 0, "received"), 2),  # of 1 that was sent
        (("hops", 0, "labels"), ["x" * 501]),
        (("hops", 0, "reached"), "yes"),
        (("hops", 0, "others"), [1]),
        (("hops", 0, "egress"), "here"),
        (("hops", 0, "quoted_tos"), 256),
        (("fault",), "bad"),
        (("fault", "message"), 7),
    ],
)
def test_what_the_far_end_may_not_send(place: tuple[Any, ...], value: Any) -> None:
    import json

    data = json.loads(json.dumps(trace_json.encode(TRACE)))
    spot = data
    for step in place[:-1]:
        spot = spot[step]
    spot[place[-1]] = value
    with pytest.raises(WireError):
        trace_json.decode(data)
    del spot[place[-1]]
    if place[-1] not in {"egress", "quoted_tos"}:  # younger than the rest: an older agent does not send it
        with pytest.raises(WireError):
            trace_json.decode(data)
