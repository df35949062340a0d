"""What asks how long a packet may be, and the short answer to it. Integers in network order. Floor 1, pure.

    question = "linkqual mtu?" token(8) number(4) zeros up to the length asked about
    answer   = "linkqual mtu!" token(8) number(4) length(2) pieces(2)

`length` is that of the UDP payload as it arrived, `pieces` the largest fragment it came in (0: it came whole). The answer is never
longer than the shortest question, so that nobody can be made to send more than was sent to him; nobody answers an answer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from linkqual.errors import WireError

TOKEN_BYTES = 8
_QUESTION, _ANSWER = b"linkqual mtu?", b"linkqual mtu!"
_HEAD = struct.Struct(f"!13s{TOKEN_BYTES}sI")
_REST = struct.Struct("!HH")
SHORTEST = _HEAD.size + _REST.size  # UDP payload


@dataclass(frozen=True, slots=True)
class Got:
    """An answer: that question arrived, so long, in pieces no larger than that (0: whole)."""

    number: int
    payload_bytes: int
    piece_bytes: int


def question(token: bytes, number: int, payload_bytes: int) -> bytes:
    """UDP payload of that length, at least SHORTEST."""
    return _HEAD.pack(_QUESTION, token, number).ljust(payload_bytes, b"\0")


def asked(payload: bytes, token: bytes) -> int:
    """The number of a question, of which these may be the first octets only. Raises WireError when it is none with this token."""
    return _number(payload, _QUESTION, token)


def answer(token: bytes, number: int, payload_bytes: int, piece_bytes: int = 0) -> bytes:
    """UDP payload."""
    return _HEAD.pack(_ANSWER, token, number) + _REST.pack(payload_bytes, min(piece_bytes, 0xFFFF))


def got(payload: bytes, token: bytes) -> Got:
    """What an answer says. Raises WireError when it is none with this token."""
    number = _number(payload, _ANSWER, token)
    if len(payload) != SHORTEST:
        raise WireError(f"an answer has {SHORTEST} octets, not {len(payload)}")
    return Got(number, *_REST.unpack_from(payload, _HEAD.size))


def _number(payload: bytes, magic: bytes, token: bytes) -> int:
    if len(payload) < _HEAD.size:
        raise WireError(f"{len(payload)} octets are too few")
    found, theirs, number = _HEAD.unpack_from(payload)
    if (found, theirs) != (magic, token):
        raise WireError("not of this search for the path MTU")
    return int(number)
