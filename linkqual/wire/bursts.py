"""Packets of training bursts: the data, and what the receiver answers.

    head     = session(8) kind(1) copy(1) flow(2) burst(4) index(4) packets(4)      network order, 24 octets
    data     = head, filled up with zeros; `copy` 0 is the first copy, `index` counts inside the burst in the order of departure
    hello    = head; `index`: of the hello, so that its answer is told apart
    ready    = head hold(8)                      the receiver's answer to a hello
    complete = head hold(8)                      every packet of the burst is here
    missing  = head count(2) [first(4) number(4)] * count
    knock    = head                              from a near receiver to the sender, on the way of each flow, before anything else

`hold` is how long the receiver had the packet it answers, ns. Sequence-checked by (burst, index); any octets give a reply or a
WireError. Floor 1, pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError

HEAD_BYTES = 24
SMALLEST_BYTES = HEAD_BYTES + 8
MAX_RANGES = 150  # of one report: it fits into 1280 octets, the smallest MTU of IPv6
MAX_PACKETS = 1 << 24  # of one burst
HEAD = np.dtype(
    [("session", ">u8"), ("kind", "u1"), ("copy", "u1"), ("flow", ">u2"), ("burst", ">u4"), ("index", ">u4"), ("packets", ">u4")]
)  # fmt: skip
_HEAD, _HOLD, _COUNT, _RANGE = (struct.Struct(form) for form in ("!QBBHIII", "!Q", "!H", "!II"))

Rows = npt.NDArray[np.void]
Octets = npt.NDArray[np.uint8]


class Kind(IntEnum):
    """What a packet is."""

    DATA = 1
    HELLO = 2
    READY = 3
    COMPLETE = 4
    MISSING = 5
    KNOCK = 6


@dataclass(frozen=True, slots=True)
class Hello:
    """A hello, or with `knock` what the receiver says first on each flow's way, so that the sender knows it."""

    number: int
    knock: bool = False
    flow: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """The answer to hello `number`."""

    number: int
    hold_ns: int


@dataclass(frozen=True, slots=True)
class Complete:
    """Every packet of the burst has arrived."""

    burst: int
    hold_ns: int


@dataclass(frozen=True, slots=True)
class Missing:
    """What has not arrived, the first MAX_RANGES ranges of (first, number)."""

    burst: int
    ranges: tuple[tuple[int, int], ...]


Reply = Hello | Ready | Complete | Missing


def encode(session: int, reply: Reply) -> bytes:
    """The packet of a reply."""
    match reply:
        case Hello(number, knock, flow):
            return _HEAD.pack(session, Kind.KNOCK if knock else Kind.HELLO, 0, flow, 0, number, 0)
        case Ready(number, hold_ns):
            return _HEAD.pack(session, Kind.READY, 0, 0, 0, number, 0) + _HOLD.pack(hold_ns)
        case Complete(burst, hold_ns):
            return _HEAD.pack(session, Kind.COMPLETE, 0, 0, burst, 0, 0) + _HOLD.pack(hold_ns)
        case Missing(burst, ranges):
            head = _HEAD.pack(session, Kind.MISSING, 0, 0, burst, 0, 0) + _COUNT.pack(len(ranges))
            return head + b"".join(_RANGE.pack(first, number) for first, number in ranges)


def decode(packet: bytes, session: int) -> Reply:
    """The reply in a packet of this session. WireError for anything else."""
    if len(packet) < HEAD_BYTES:
        raise WireError(f"a burst packet has at least {HEAD_BYTES} octets, got {len(packet)}")
    found, kind, _copy, flow, burst, index, _packets = _HEAD.unpack_from(packet)
    if found != session:
        raise WireError("a burst packet of another session")
    rest = packet[HEAD_BYTES:]
    if kind in (Kind.HELLO, Kind.KNOCK):
        return Hello(index, kind == Kind.KNOCK, flow)
    if kind in (Kind.READY, Kind.COMPLETE):
        if len(rest) < _HOLD.size:
            raise WireError("an answer to a burst is cut short")
        hold_ns = min(_HOLD.unpack_from(rest)[0], 2**62)
        return Ready(index, hold_ns) if kind == Kind.READY else Complete(burst, hold_ns)
    if kind == Kind.MISSING:
        return Missing(burst, _ranges(rest))
    raise WireError(f"a burst packet of kind {kind} is no reply")


def _ranges(rest: bytes) -> tuple[tuple[int, int], ...]:
    if len(rest) < _COUNT.size:
        raise WireError("a report of missing packets is cut short")
    (count,) = _COUNT.unpack_from(rest)
    if count > MAX_RANGES or len(rest) < _COUNT.size + count * _RANGE.size:
        raise WireError(f"a report of {count} ranges of missing packets is cut short or too long")
    ranges = tuple(_RANGE.unpack_from(rest, _COUNT.size + at * _RANGE.size) for at in range(count))
    next_ = 0
    for first, number in ranges:  # each packet once: a short report must not ask for more than a burst
        if first < next_ or not number or first + number > MAX_PACKETS:
            raise WireError("a report names packets no burst has, or names some twice")
        next_ = first + number
    return ranges


def heads(payload: Octets, packets: int = 1, octets: int = 0) -> Rows:
    """The heads of packets as columns, shape (rows, packets), sharing memory: each row of `payload` holds so many, `octets` apart."""
    rows, width = payload.shape
    if (packets - 1) * octets + HEAD_BYTES > width:
        raise WireError("the rows end before their last head")
    return np.ndarray((rows, packets), HEAD, payload, strides=(payload.strides[0], octets or width))


def data_heads(heads: Rows, session: int) -> npt.NDArray[np.bool_]:
    """Which heads are those of data of this session."""
    found: npt.NDArray[np.bool_] = (heads["kind"] == Kind.DATA) & (heads["session"] == session)
    return found
