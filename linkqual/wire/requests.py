"""What each request of the control channel may carry. Floor 1, pure.

Anything else is refused here, before it reaches a socket or a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from linkqual.errors import WireError
from linkqual.model import Json
from linkqual.wire.bursts import MAX_PACKETS, SMALLEST_BYTES
from linkqual.wire.control import MAX_ARRIVED, MAX_SEQ, Request


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer argument; without a default it must be given. `optional`: null means the same as left out."""

    low: int
    high: int
    default: int | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a fraction that must be given."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Text:
    """A string argument of at most `longest` characters."""

    longest: int


@dataclass(frozen=True, slots=True)
class Integers:
    """A list of at most `most` small integers."""

    most: int


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false; false when left out."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these words; the first one when left out."""

    words: tuple[str, ...]


Argument = Integer | Number | Text | Integers | Truth | Choice

# name -> arguments. Answers are listed in the docstring of the agent's session module.
REQUESTS: dict[str, dict[str, Argument]] = {
    "hello": {"protocols": Integers(16), "version": Text(64), "nonce": Text(64), "proof": Text(64)},
    "host": {},
    "calibrate": {},
    "stamp.open": {
        "rate_pps": Integer(1, 100_000_000),
        "packet_bytes": Integer(44, 65507),  # UDP payload, RFC 8762
        "seconds": Number(0.001, 366 * 86400),  # after which the reflector ends by itself
        "packets": Integer(1, MAX_SEQ, optional=True),
        "receive_buffer_bytes": Integer(1, 2**31 - 1, optional=True),
        "authenticated": Truth(),
        "stateless": Truth(),
        "timestamps": Choice(("ntp", "ptp")),
        "reply_ecn": Integer(0, 3, optional=True),  # of all replies; without it that of a request with Class of Service
    },
    "stamp.counters": {"session": Text(64)},
    "stamp.arrived": {"session": Text(64), "first": Integer(0, MAX_SEQ), "count": Integer(1, MAX_ARRIVED)},
    "stamp.close": {"session": Text(64)},
    "iperf3.open": {
        "seconds": Number(0.1, 366 * 86400),
        "streams": Integer(1, 128, 1),
        "congestion_control": Choice(("", "cubic", "reno", "bbr", "dctcp")),  # of the far end, where it is to send
    },
    "iperf3.close": {"port": Integer(1, 65535, optional=True), "wait_ms": Integer(0, 10_000, 2000)},
    "load.open": {
        "direction": Choice(("forward", "reverse")),
        "flows": Integer(1, 256, 1),
        "longest": Integer(18, 9188),  # octets of UDP payload
        "dscp": Integer(0, 63, 0),
    },
    "load.begin": {
        "session": Text(64),
        "number": Integer(1, 2**31),
        "rate_bps": Integer(0, 10**13),
        "duration_ns": Integer(0, 366 * 86400 * 10**9),
        "packets": Integer(0, MAX_SEQ),
        "sizes": Integers(128),  # bytes of an IP packet and its weight, in turn
        "flows": Integer(1, 256),
        "segmented": Truth(),
        "arrivals": Truth(),
        "jitter": Number(0, 1),
        "interval_ns": Integer(1_000_000, 3600 * 10**9),
        "expire_at": Integer(0, 255, 0),
        "marker_in": Integer(1, 1000, 1),
        "lead": Integer(0, MAX_SEQ, 0),
        "rung": Integer(0, MAX_SEQ, 0),
        "climbing": Truth(),
        "window_bytes": Integer(0, 2**40, 0),
    },
    "load.look": {"session": Text(64)},
    "load.halt": {"session": Text(64)},
    "load.result": {"session": Text(64)},
    "load.arrivals": {"session": Text(64), "first": Integer(0, MAX_SEQ), "count": Integer(1, 100_000)},
    "load.close": {"session": Text(64)},
    "bursts.open": {
        "direction": Choice(("forward", "reverse")),
        "bursts": Integer(1, 2**31),
        "packets": Integer(1, MAX_PACKETS),  # of one burst
        "packet_bytes": Integer(SMALLEST_BYTES, 9188),  # UDP payload
        "flows": Integer(1, 256),
        "gap_ns": Number(0.01, 10**12),
        "period_ns": Integer(1, 3600 * 10**9),
        "quiet_ns": Integer(1000, 10**9),
        "patience_ns": Integer(1_000_000, 3600 * 10**9),
        "overlap": Truth(),
        "most_repeats": Integer(0, MAX_SEQ),
    },
    "bursts.start": {"session": Text(64), "period_ns": Integer(1, 3600 * 10**9)},
    "bursts.look": {"session": Text(64)},
    "bursts.close": {"session": Text(64)},
    "mtu.open": {},
    "mtu.search": {
        "port": Integer(1, 65535),
        "longest": Integer(576, 65535),  # bytes of an IP packet
        "timeout_ns": Integer(50_000_000, 10 * 10**9),
        "pace_bps": Integer(100_000, 10**10),
    },
    "mtu.listen": {"data_bytes": Integer(1, 100_000_000), "pace_bps": Integer(100_000, 10**10)},
    "mtu.heard": {"wait_ms": Integer(0, 10_000, 0)},
    "mtu.close": {},
    "trace": {
        "source_port": Integer(1, 65535),
        "destination_port": Integer(1, 65535),
        "max_hops": Integer(1, 64, 30),
        "rounds": Integer(1, 20, 3),
        "tos": Integer(0, 255, 0),  # or Traffic Class, of the probes
    },
    "trace.target": {
        "port": Integer(1, 65535, optional=True),
        "seconds": Integer(1, 366 * 86400, 60),
    },
    "hops.open": {
        "source_port": Integer(1, 65535),
        "destination_port": Integer(1, 65535),
        "ttls": Integers(64),
        "seconds": Number(0.1, 366 * 86400),
        "base": Integer(0, 1000, 0),  # octets more than the least in each probe
        "tos": Integer(0, 255, 0),  # or Traffic Class, of the probes
    },
    "hops.close": {},
    "bye": {},
}


def checked(request: Request) -> dict[str, Json]:
    """The request's arguments with defaults filled in. WireError names the argument that is wrong and what is allowed."""
    allowed = REQUESTS.get(request.name)
    if allowed is None:
        raise WireError(f"there is no request {request.name[:40]!r}", hint="the near end is newer than this agent")
    for name in request.args:
        if name not in allowed:
            raise WireError(f"{request.name} has no argument {name[:40]!r}")
    return {name: _argument(request.name, name, kind, request.args) for name, kind in allowed.items()}


def _argument(request: str, name: str, kind: Argument, args: Mapping[str, Json]) -> Json:
    where = f"{request}: {name}"
    value = args.get(name)
    match kind:
        case Integer(low, high, default, optional):
            value = default if name not in args else value
            allowed = (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high) or (
                optional and value is None
            )
            if not allowed:
                raise WireError(f"{where} is an integer from {low} to {high}")
        case Number(least, greatest):
            if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= greatest:
                raise WireError(f"{where} is a number from {least:g} to {greatest:g}")
        case Text(longest):
            if not isinstance(value, str) or len(value) > longest:
                raise WireError(f"{where} is a text of at most {longest} characters")
        case Truth() | Choice():
            value = _chosen(where, kind, args.get(name))
        case Integers(most):
            if not isinstance(value, list) or len(value) > most or not all(map(_is_integer, value)):
                raise WireError(f"{where} is a list of at most {most} integers")
    return value


def _chosen(where: str, kind: Truth | Choice, value: Json) -> Json:
    allowed = [False, True] if isinstance(kind, Truth) else list(kind.words)
    if value is None:
        return allowed[0]
    if isinstance(value, bool | str) and value in allowed:
        return value
    raise WireError(f"{where} is {'true or false' if isinstance(kind, Truth) else 'one of ' + ', '.join(kind.words)}")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
