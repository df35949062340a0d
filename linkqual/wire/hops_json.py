"""Answers of hops as the far end hands them over: plain JSON values, each address once.

    {"addresses": ["192.0.2.1", ...], "asked": [[ttl, sent_ns, rtt_ns or -1, index of the address or -1], ...], "ended_ns": n}

What comes back was written by the far end: every value is checked, and anything else is a WireError. Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from linkqual.errors import WireError
from linkqual.model import Json

MOST = 20_000  # probes of one watch
Row = tuple[int, int, int | None, str]  # TTL, sent, round trip (None: no answer), who answered
_LONGEST_NS = 2**62
_MAX_TTL, _MAX_ADDRESSES = 255, 1000


def encode(rows: Sequence[Row], ended_ns: int) -> dict[str, Json]:
    """The rows in the order they were sent; `ended_ns`: how long the watch lasted."""
    addresses = sorted({address for *_, address in rows if address})
    place = {address: index for index, address in enumerate(addresses)} | {"": -1}
    asked = [[ttl, sent, -1 if rtt is None else rtt, place[address]] for ttl, sent, rtt, address in rows]
    return {"addresses": addresses, "asked": asked, "ended_ns": ended_ns}


def decode(data: Json) -> tuple[list[Row], int]:
    """The inverse of `encode`. Raises WireError."""
    if not isinstance(data, dict):
        raise WireError(
            "the far end's answers of hops are no object", hint="use the same linkqual version at both ends"
        )
    addresses = [_address(one) for one in _items(data.get("addresses"), _MAX_ADDRESSES)]
    rows = [_row(one, addresses) for one in _items(data.get("asked"), MOST)]
    return rows, _integer(data.get("ended_ns"), 0, _LONGEST_NS)


def _row(data: Json, addresses: Sequence[str]) -> Row:
    row = _items(data, 4)
    if len(row) != 4:
        raise WireError(f"an answer of a hop has four values, the far end gave {len(row)}")
    rtt, place = _integer(row[2], -1, _LONGEST_NS), _integer(row[3], -1, len(addresses) - 1)
    sent = _integer(row[1], 0, _LONGEST_NS)
    return _integer(row[0], 1, _MAX_TTL), sent, None if rtt < 0 else rtt, addresses[place] if place >= 0 else ""


def _integer(value: Json, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise WireError(f"the far end's answers of hops hold {value!r} where a number from {low} to {high} belongs")
    return value


def _address(value: Json) -> str:
    try:
        return str(ip_address(value.partition("%")[0] if isinstance(value, str) else ""))  # without a zone: any text
    except ValueError:
        raise WireError(f"the far end's answers of hops hold {value!r} where an IP address belongs") from None


def _items(value: Json, most: int) -> list[Json]:
    if not isinstance(value, list) or len(value) > most:
        raise WireError(f"the far end's answers of hops lack a list of at most {most} values")
    return value
