"""ICMP errors read with scapy: what the near end's trace uses.

scapy takes 0.25 s to import and 0.3 ms a packet, so nothing timed goes through it and it is imported on first use. Its
routing tables are never read: the kernel routes, and both addresses are always given. The far end, which needs no scapy,
reads the same messages with `linkqual.wire.icmp`; a test holds the two against each other. Floor 3.
"""

from __future__ import annotations

import logging
import socket
from functools import cache
from types import SimpleNamespace
from typing import Any

from linkqual.errors import WireError
from linkqual.net.trace_sockets import Codec
from linkqual.wire import icmp
from linkqual.wire.icmp import IcmpError, Label, Quote


@cache
def _layers() -> Any:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False  # before any layer is imported
    logging.getLogger("scapy").setLevel(logging.ERROR)  # it warns of missing routes and interfaces nobody asks it for
    from scapy.contrib import mpls
    from scapy.layers import inet, inet6
    from scapy.packet import Raw

    return SimpleNamespace(inet=inet, inet6=inet6, mpls=mpls, raw=Raw)


def parse(family: int, message: bytes) -> IcmpError:
    """An ICMP or ICMPv6 message from its type on. Raises WireError when it is no error about a UDP packet."""
    layers = _layers()
    version = 6 if family == socket.AF_INET6 else 4
    if len(message) < 8:
        raise WireError(f"{len(message)} octets are no ICMP message")
    cause = icmp.cause(version, message[0], message[1])
    if version == 6:
        kind = layers.inet6.ICMPv6TimeExceeded if message[0] == 3 else layers.inet6.ICMPv6DestUnreach
        outer, inner = kind, layers.inet6.IPerror6
    else:
        outer, inner = layers.inet.ICMP, layers.inet.IPerror
    try:
        packet = outer(message)
    except Exception as error:  # its dissectors raise anything on bytes they do not like
        raise WireError(f"scapy cannot read the ICMP error: {error}") from error
    quoted = packet.getlayer(inner)
    udp = packet.getlayer(layers.inet.UDPerror)
    if quoted is None or udp is None or udp.len is None:
        raise WireError("the ICMP error quotes no UDP header")
    ttl, tos = (quoted.hlim, quoted.tc) if version == 6 else (quoted.ttl, quoted.tos)
    quote = Quote(quoted.src, quoted.dst, udp.sport, udp.dport, udp.len, ttl, tos)
    return IcmpError(cause, quote, _labels(layers, packet.ext))


def _labels(layers: Any, extension: Any) -> tuple[Label, ...]:
    found: list[Label] = []
    while extension is not None and not isinstance(extension, layers.raw):
        if isinstance(extension, layers.mpls.ICMPExtension_MPLS):
            entries = [entry for first in extension.stack for entry in first.iterpayloads()]
            stack = [entry for entry in entries if isinstance(entry, layers.mpls.MPLS)]
            found += [Label(entry.label, entry.cos, bool(entry.s), entry.ttl) for entry in stack]
        extension = extension.payload or None
    return tuple(found)


SCAPY = Codec(parse)
