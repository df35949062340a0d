"""A trace as it travels over the control channel: a Trace to plain JSON values and back.

What comes back was written by the far end: every field is checked, and anything else is a WireError. Floor 1, pure.
"""

from __future__ import annotations

from dataclasses import asdict
from ipaddress import ip_address
from typing import Any

from linkqual.errors import WireError
from linkqual.model import Fault, Hop, Json, Trace

MAX_HOPS = 255
_MAX_TEXT = 500
_MAX_ITEMS = 64  # labels, addresses or round trips of one hop


def encode(trace: Trace) -> dict[str, Json]:
    """Plain dicts, lists, strings and integers."""
    return asdict(trace)


def decode(data: Json) -> Trace:
    """The inverse of `encode`. Raises WireError when a field is missing, of the wrong kind, or unreasonably large."""
    return Trace(
        source=_address(_field(data, "source")),
        destination=_address(_field(data, "destination")),
        source_port=_integer(_field(data, "source_port"), 65535),
        destination_port=_integer(_field(data, "destination_port"), 65535),
        hops=tuple(_hop(hop) for hop in _items(_field(data, "hops"), MAX_HOPS)),
        fault=_fault(_field(data, "fault")),
    )


def _hop(data: Json) -> Hop:
    address, egress = _field(data, "address"), data.get("egress")
    reached, sent = _field(data, "reached"), _integer(_field(data, "sent"), 2**31)
    if not isinstance(reached, bool):
        raise WireError(f"a hop's `reached` is {reached!r}, not true or false")
    return Hop(
        ttl=_integer(_field(data, "ttl"), MAX_HOPS),
        address=None if address is None else _address(address),
        rtt_ns=tuple(_integer(ns, 2**63 - 1) for ns in _items(_field(data, "rtt_ns"))),
        sent=sent,
        received=_integer(_field(data, "received"), sent),
        labels=tuple(_text(label) for label in _items(_field(data, "labels"))),
        reply_ttl=_optional_octet(_field(data, "reply_ttl")),
        quoted_ttl=_optional_octet(_field(data, "quoted_ttl")),
        reached=reached,
        others=tuple(_address(other) for other in _items(_field(data, "others"))),
        egress=None if egress is None else _address(egress),
        quoted_tos=_optional_octet(data.get("quoted_tos")),
    )


def _fault(data: Json) -> Fault | None:
    if data is None:
        return None
    return Fault(*(_text(_field(data, name)) for name in ("kind", "message", "hint")))


def _field(data: Json, name: str) -> Any:
    if not isinstance(data, dict) or name not in data:
        raise WireError(f"a trace from the far end lacks {name!r}", hint="use the same linkqual version at both ends")
    return data[name]


def _integer(value: Json, largest: int) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise WireError(f"a trace from the far end holds {value!r} where a number up to {largest} belongs")
    return value


def _optional_octet(value: Json) -> int | None:
    return None if value is None else _integer(value, 255)


def _text(value: Json) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise WireError("a trace from the far end holds something else where a short text belongs")
    return value


def _address(value: Json) -> str:
    text = _text(value)
    try:
        return str(ip_address(text.partition("%")[0]))  # a zone may be any text, and means something there only
    except ValueError:
        raise WireError(f"a trace from the far end holds {text!r} where an IP address belongs") from None


def _items(value: Json, most: int = _MAX_ITEMS) -> list[Any]:
    if not isinstance(value, (list, tuple)) or len(value) > most:
        raise WireError(f"a trace from the far end holds something else where a list of at most {most} belongs")
    return list(value)
