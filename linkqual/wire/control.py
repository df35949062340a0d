"""The control channel's messages: one JSON object in a frame, behind a length of four octets in network order.

    frame    = length(4, big endian, octets of the object) object
    request  = {"id": n, "do": name, "args": {...}}
    answer   = {"id": n, "ok": {...}}
    refusal  = {"id": n, "error": {"kind": "...", "message": "...", "hint": "..."}}

The near end asks, the far end answers in order; the far end never speaks first. The first request is `hello`; its form is the
same in every version, so that two versions can tell each other so. What each request may carry is in `wire.requests`. Any bytes
give a message or a WireError. Floor 1, pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import dataclass, field
from typing import NoReturn

from linkqual.errors import WireError
from linkqual.model import Json

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
    """`name` is a key of `requests.REQUESTS` once `requests.checked` has seen it; `args` are plain JSON values."""

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
