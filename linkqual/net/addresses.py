"""Socket addresses as text: with their interface where they need one, and bare, to be compared; and which are used to a host. Floor 3."""

from __future__ import annotations

import socket
from typing import Any

from linkqual.errors import PeerError


def numeric(address: tuple[Any, ...]) -> str:
    """The host of a socket address; a link-local IPv6 one with its interface. OSError when that interface is gone."""
    host = str(address[0])
    if len(address) == 4 and address[3] and "%" not in host:
        return f"{host}%{socket.if_indextoname(address[3])}"
    return host


def bare(address: str) -> str:
    """Without interface, and an IPv4 address that is written as an IPv6 one (RFC 4291 section 2.5.5.2) as itself."""
    return address.partition("%")[0].removeprefix("::ffff:")


def way_to(host: str, port: int) -> tuple[str, str]:
    """(address of this host on the way to that UDP port, address of that host), nothing sent. Raises PeerError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise PeerError(f"{host!r} has no address: {error.strerror}", "check the name, or give its address") from error
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return numeric(probe.getsockname()), numeric(probe.getpeername())
    except OSError as error:
        raise PeerError(f"no way to {host}: {error.strerror}", "check routes and addresses") from error
