"""UDP out of captured frames, with scapy's layers as the second opinion, and under arbitrary bytes."""

from __future__ import annotations

from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.wire import frame
from linkqual.wire.frame import Datagram

V4, V6 = ("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")
PAYLOAD = bytes(range(50))


@pytest.fixture(scope="module")
def layers() -> Any:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False
    from scapy.layers import inet, inet6, l2

    return SimpleNamespace(**vars(l2) | vars(inet6) | vars(inet))


def wanted(addresses: tuple[str, str], tos: int = 0x2E, ttl: int = 61, **more: Any) -> Datagram:
    source, destination = (ip_address(each).packed for each in addresses)
    return Datagram(source, destination, 4000, 862, ttl, tos, len(PAYLOAD), PAYLOAD)._replace(**more)


def v4(layers: Any, **settings: Any) -> Any:
    head = layers.IP(src=V4[0], dst=V4[1], ttl=61, tos=0x2E, **settings)
    return head / layers.UDP(sport=4000, dport=862) / layers.Raw(PAYLOAD)


def v6(layers: Any, *extensions: Any) -> Any:
    packet = layers.IPv6(src=V6[0], dst=V6[1], hlim=61, tc=0x2E)
    for extension in extensions:
        packet /= extension
    return packet / layers.UDP(sport=4000, dport=862) / layers.Raw(PAYLOAD)


def test_every_link_layer_of_tcpdump(layers: Any) -> None:
    for packet, expected in ((v4(layers), wanted(V4)), (v6(layers), wanted(V6))):
        ether = layers.Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        cooked = layers.CookedLinux(proto=0x0800 if expected.source[:1] == b"\xc0" else 0x86DD)
        cooked_2 = layers.CookedLinuxV2(proto=cooked.proto, ifindex=3)
        tagged = ether / layers.Dot1Q(vlan=5) / packet
        twice = ether / layers.Dot1AD(vlan=7) / layers.Dot1Q(vlan=5) / packet
        for kind, raw, found in (
            (1, ether / packet, expected),
            (1, tagged, expected),
            (1, twice, expected),
            (101, packet, expected),
            (12, packet, expected),
            (113, cooked / packet, expected),
            (276, cooked_2 / packet, expected._replace(interface=3)),
            (0, layers.Loopback() / packet, expected),
        ):
            assert frame.known(kind)
            assert frame.datagram(bytes(raw), kind) == found, (kind, raw.summary())
    assert not frame.known(127)
    assert frame.datagram(bytes(v4(layers)), 127) is None


def test_options_extension_headers_and_fragments(layers: Any) -> None:
    routed = v4(layers, options=[layers.IPOption_RR(length=11, routers=["0.0.0.0"] * 2)])
    assert frame.datagram(bytes(routed), 101) == wanted(V4)
    headers = [layers.IPv6ExtHdrHopByHop(), layers.IPv6ExtHdrDestOpt(), layers.IPv6ExtHdrRouting(addresses=["::1"])]
    assert frame.datagram(bytes(v6(layers, *headers)), 101) == wanted(V6)
    first, *others = layers.fragment(v4(layers), fragsize=32)
    assert frame.datagram(bytes(first), 101) == wanted(V4, payload=PAYLOAD[:24])
    assert [frame.datagram(bytes(each), 101) for each in others] == [None] * len(others)
    big = v6(layers, layers.IPv6ExtHdrFragment())
    assert frame.datagram(bytes(big), 101) == wanted(V6)
    assert frame.datagram(bytes(v6(layers, layers.IPv6ExtHdrFragment(offset=3))), 101) is None


def test_padding_of_ethernet_is_no_payload_and_a_short_capture_is_said(layers: Any) -> None:
    raw = bytes(layers.Ether() / v4(layers))
    assert frame.datagram(raw + bytes(6), 1) == frame.datagram(raw, 1)
    cut = frame.datagram(raw[:60], 1)
    assert cut is not None
    assert (cut.payload_bytes, cut.payload) == (50, PAYLOAD[:18])


def test_what_is_no_udp_is_none(layers: Any) -> None:
    for packet in (
        layers.Ether() / layers.IP() / layers.TCP(),
        layers.Ether() / layers.ARP(),
        layers.Ether() / layers.IPv6(),
    ):
        assert frame.datagram(bytes(packet), 1) is None
    raw = bytes(v4(layers))
    assert frame.datagram(raw[:24] + b"\0\7" + raw[26:], 101) is None  # a UDP length below its header's


@given(st.binary(max_size=120), st.sampled_from([0, 1, 12, 101, 113, 127, 228, 276]))
def test_any_bytes_give_a_datagram_or_nothing(data: bytes, kind: int) -> None:
    found = frame.datagram(data, kind)
    assert found is None or len(found.payload) <= found.payload_bytes


@given(st.integers(0, 97), st.integers(0, 255), st.booleans())
def test_one_changed_octet_never_breaks(layers: Any, place: int, value: int, six: bool) -> None:
    raw = bytearray(bytes(v6(layers) if six else v4(layers)))
    raw[place % len(raw)] = value
    found = frame.datagram(bytes(raw), 101)
    assert found is None or isinstance(found, Datagram)
