"""What a line adds to every packet by wrapping it: bytes on the wire beside the IP packet that was sent. Floor 1, pure.

Outer headers are those of IPv4; over IPv6 a tunnel takes 20 bytes more. A contracted rate counts the wrapped packet, so the
goodput that is left is smaller: 2.0 % less with MACsec at an MTU of 1500, 0.35 % at 9000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from linkqual.stats.throughput import OVERHEAD_BYTES, tcp_payload

_OUTER_IP = 20


def _fixed(added: int, _ip_bytes: int) -> int:
    return added


def _padded(head: int, block: int, tail: int, ip_bytes: int) -> int:
    """ESP and WireGuard encrypt whole blocks; `tail` bytes are padded with the packet."""
    inside = ip_bytes + tail
    return head + tail + -inside % block


KINDS: dict[str, tuple[str, Callable[[int], int]]] = {  # name -> (in words, bytes added to an IP packet of that size)
    "vlan": ("one VLAN tag (IEEE 802.1Q)", partial(_fixed, 4)),
    "qinq": ("two VLAN tags (IEEE 802.1ad)", partial(_fixed, 8)),
    "mpls": ("one MPLS label (RFC 3032)", partial(_fixed, 4)),
    "pppoe": ("PPPoE (RFC 2516)", partial(_fixed, 8)),
    "macsec": ("MACsec with SCI (IEEE 802.1AE)", partial(_fixed, 16 + 16)),
    "gre": ("GRE (RFC 2784)", partial(_fixed, _OUTER_IP + 4)),
    "vxlan": ("VXLAN (RFC 7348)", partial(_fixed, _OUTER_IP + 8 + 8 + 14)),
    "geneve": ("Geneve without options (RFC 8926)", partial(_fixed, _OUTER_IP + 8 + 8 + 14)),
    "ipsec": ("IPsec ESP tunnel, AES-GCM (RFC 4303, RFC 4106)", partial(_padded, _OUTER_IP + 8 + 8 + 16, 4, 2)),
    "ipsec-cbc": (
        "IPsec ESP tunnel, AES-CBC with HMAC-SHA-256-128 (RFC 4303, RFC 3602, RFC 4868)",
        partial(_padded, _OUTER_IP + 8 + 16 + 16, 16, 2),
    ),
    "wireguard": ("WireGuard", partial(_padded, _OUTER_IP + 8 + 16 + 16, 16, 0)),
}


def added_bytes(ip_bytes: int, kinds: Sequence[str]) -> int:
    """Bytes that these wrappings, innermost first, add to an IP packet of that size."""
    size = ip_bytes
    for kind in kinds:
        size += KINDS[kind][1](size)
    return size - ip_bytes


def words(kinds: Sequence[str]) -> str:
    """ "one VLAN tag (IEEE 802.1Q) and GRE (RFC 2784)"."""
    return " and ".join(KINDS[kind][0] for kind in kinds)


def wrapped_goodput(rate_bps: float, mtu: int, kinds: Sequence[str], counts: str = "l1", ip_version: int = 4) -> float:
    """Largest TCP goodput (with time stamps) that a rate leaves when every packet of `mtu` bytes is wrapped so; bit/s."""
    wire = mtu + added_bytes(mtu, kinds) + OVERHEAD_BYTES[counts]
    return rate_bps * tcp_payload(mtu, ip_version) / wire
