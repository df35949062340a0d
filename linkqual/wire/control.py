"""The control channel's messages: one JSON object in a frame, behind a length of four octets in network order.

    frame    = length(4, big endian, octets of the object) object
    request  = {"id": n, "do": name, "args": {...}}
    answer   = {"id": n, "ok": {...}}
    refusal  = {"id": n, "error": {"kind": "...", "message": "...", "hint": "..."}}

The near end asks, the far end answers in order; the far end never speaks first. The first request is `hello`; its form is the
same in every version, so that two versions can tell each other so. What each request may carry is in `REQUESTS`: anything else
is refused here, before it reaches a socket or a process. Any bytes give a message or a WireError. Floor 1, pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from linkqual.errors import WireError
from linkqual.model import Json
from linkqual.wire.bursts import MAX_PACKETS, SMALLEST_BYTES

PROTOCOLS = (1,)  # versions spoken here, best last
DEFAULT_PORT = 4862
LENGTH_OCTETS = 4
MAX_FRAME = 4 * 2**20
MAX_HELLO = 4096  # of a caller not yet known
MAX_DEPTH = 16
MAX_VALUES = 200_000
MAX_SEQ = 2**48
MAX_TEXT = 64 * 2**20  # of a packed text, unpacked
FORGOTTEN = "forgotten"  # kind of refusal: arrivals so long ago that the far end no longer knows them
MAX_ARRIVED = 2**24  # packets in one bitmap: 2 MiB, 2.7 MiB in base64


@dataclass(frozen=True, slots=True)
class Request:
    """`name` is a key of REQUESTS once `checked` has seen it; `args` are plain JSON values."""

    id: int
    name: str
    args: dict[str, Json] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The request was served."""

    id: int
    result: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The request was not served: what happened in one sentence, and what to do next."""

    id: int
    kind: str
    message: str
    hint: str = ""


Message = Request | Answer | Refusal


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


def encode(message: Message) -> bytes:
    """The whole frame, length included. WireError when it would be longer than MAX_FRAME."""
    body: dict[str, Json]
    match message:
        case Request(number, name, args):
            body = {"id": number, "do": name, "args": args}
        case Answer(number, result):
            body = {"id": number, "ok": result}
        case Refusal(number, kind, text, hint):
            body = {"id": number, "error": {"kind": kind, "message": text, "hint": hint}}
    try:
        payload = json.dumps(body, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"not a control message: {error}") from error
    if len(payload) > MAX_FRAME:
        raise WireError(f"a control message of {len(payload)} octets is over the limit of {MAX_FRAME}")
    return len(payload).to_bytes(LENGTH_OCTETS, "big") + payload


def frame_length(head: bytes, limit: int = MAX_FRAME) -> int:
    """Octets of the object that follows the four of `head`."""
    if len(head) != LENGTH_OCTETS:
        raise WireError(f"a frame begins with {LENGTH_OCTETS} octets of length, got {len(head)}")
    length = int.from_bytes(head, "big")
    if not 2 <= length <= limit:
        raise WireError(f"a frame of {length} octets: allowed are 2 to {limit}")
    return length


def decode(payload: bytes) -> Message:
    """The message of one frame (without its length)."""
    body = _parse(payload)
    number = body.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
        raise WireError("a control message needs an id between 0 and 2^53")
    match body:
        case {"id": _, "do": str(name), "args": dict(args), **rest} if not rest:
            return Request(number, name, args)
        case {"id": _, "ok": dict(result), **rest} if not rest:
            return Answer(number, result)
        case {"id": _, "error": {"kind": str(kind), "message": str(text), "hint": str(hint), **more}, **rest} if (
            not rest and not more
        ):
            return Refusal(number, kind, text, hint)
    raise WireError("a control message is a request, an answer or a refusal; this is none of them")


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


def _parse(payload: bytes) -> dict[str, Json]:
    try:
        body = json.loads(
            payload.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise WireError(f"a control message is JSON: {str(error)[:120]}") from error
    if not isinstance(body, dict):
        raise WireError("a control message is a JSON object")
    _bounded(body)
    return body


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _bounded(body: Json) -> None:
    """WireError when the value is nested too deeply, holds too many values, or text that no terminal could show."""
    level, values = [body], 0
    for _ in range(MAX_DEPTH):
        values += len(level)
        if values > MAX_VALUES:
            raise WireError(f"a control message holds at most {MAX_VALUES} values")
        below: list[Json] = []
        for value in level:
            if isinstance(value, dict):
                below += [*value.keys(), *value.values()]
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str) and not _printable(value):
                raise WireError("a control message holds half a surrogate pair")
        if not below:
            return
        level = below
    raise WireError(f"a control message is nested at most {MAX_DEPTH} deep")


def _printable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def bytes_text(data: bytes) -> str:
    """Octets as base64 text, for a bitmap inside a message."""
    return base64.b64encode(data).decode("ascii")


def text_bytes(text: str) -> bytes:
    """The inverse of `bytes_text`."""
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise WireError("a text that should be base64 is not") from error


def packed_text(text: str) -> str:
    """A long text (an iperf3 document) as base64 of its zlib stream, some tenth of its size."""
    return bytes_text(zlib.compress(text.encode("utf-8", "replace"), 6))


def unpacked_text(packed: str) -> str:
    """The inverse of `packed_text`; at most MAX_TEXT octets, whatever the stream claims."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(text_bytes(packed), MAX_TEXT)
    except zlib.error as error:
        raise WireError(f"a packed text is damaged: {error}") from error
    if not inflate.eof:
        raise WireError("a packed text is cut short or too long")
    return data.decode("utf-8", "replace")
