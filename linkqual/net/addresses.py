"""Socket addresses as text: with their interface where they need one, and bare, to be compared. Floor 3."""

from __future__ import annotations

import socket
from typing import Any


def numeric(address: tuple[Any, ...]) -> str:
    """The host of a socket address; a link-local IPv6 one with its interface. OSError when that interface is gone."""
    host = str(address[0])
    if len(address) == 4 and address[3] and "%" not in host:
        return f"{host}%{socket.if_indextoname(address[3])}"
    return host


def bare(address: str) -> str:
    """Without interface, and an IPv4 address that is written as an IPv6 one (RFC 4291 section 2.5.5.2) as itself."""
    return address.partition("%")[0].removeprefix("::ffff:")
