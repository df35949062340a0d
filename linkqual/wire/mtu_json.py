"""What the far end found of a direction's MTU, as it travels over the control channel. Every field is checked. Floor 1, pure."""

from __future__ import annotations

from dataclasses import asdict
from ipaddress import ip_address
from typing import Any

from linkqual.errors import WireError
from linkqual.model import Direction, Json, MtuHop, MtuTried, MtuWay

KINDS = ("whole", "told", "black hole", "unknown")
_LONGEST = 2**16
_MOST = 500  # sizes tried, hops, characters


def encode(way: MtuWay) -> dict[str, Json]:
    """Plain dicts, lists, strings and integers."""
    return asdict(way)


def decode(data: Json, direction: Direction) -> MtuWay:
    """The inverse of `encode`, of the direction that was asked for. Raises WireError."""
    return MtuWay(
        direction=direction,
        kind=_word(data, "kind"),
        interface_bytes=_optional(data, "interface_bytes"),
        longest_bytes=_whole(_field(data, "longest_bytes")),
        passes=_optional(data, "passes"),
        fails=_optional(data, "fails"),
        told_by=_address(_field(data, "told_by")),
        told_bytes=_optional(data, "told_bytes"),
        fragmented=_truth(_field(data, "fragmented")),
        tried=tuple(MtuTried(*_wholes(one, "packet_bytes", "sent", "arrived")) for one in _list(data, "tried")),
        hops=tuple(map(_hop, _list(data, "hops"))),
        reached_ttl=_optional(data, "reached_ttl"),
        because=_text(_field(data, "because")),
    )


def whole_or_none(data: Json, name: str, most: int = 2**63) -> int | None:
    """A number of an answer, or None. Raises WireError."""
    value = _field(data, name)
    return None if value is None else _whole(value, most)


def _hop(data: Json) -> MtuHop:
    (ttl,) = _wholes(data, "ttl")
    return MtuHop(ttl, _address(_field(data, "address")), _truth(_field(data, "short")), _truth(_field(data, "long")))


def _wholes(data: Json, *names: str) -> list[int]:
    return [_whole(_field(data, name)) for name in names]


def _optional(data: Json, name: str) -> int | None:
    return whole_or_none(data, name, _LONGEST)


def _field(data: Json, name: str) -> Any:
    if not isinstance(data, dict) or name not in data:
        raise WireError(
            f"what the far end found of the MTU lacks {name!r}", "use the same linkqual version at both ends"
        )
    return data[name]


def _wrong(value: Json) -> WireError:
    return WireError(f"what the far end found of the MTU holds {str(value)[:40]!r} where something else belongs")


def _whole(value: Json, most: int = _LONGEST) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise _wrong(value)
    return value


def _truth(value: Json) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value)
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str) or len(value) > _MOST:
        raise _wrong(value)
    return value


def _word(data: Json, name: str) -> str:
    if (value := _field(data, name)) not in KINDS:
        raise _wrong(value)
    return str(value)


def _address(value: Json) -> str | None:
    if value is None:
        return None
    try:
        return str(ip_address(_text(value)))
    except ValueError:
        raise _wrong(value) from None


def _list(data: Json, name: str) -> list[Json]:
    value = _field(data, name)
    if not isinstance(value, list | tuple) or len(value) > _MOST:
        raise _wrong(value)
    return list(value)
