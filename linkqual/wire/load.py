"""Packets of our own UDP load, as columns. Floor 1, pure.

    token(4) phase(1) flow(1) sequence(4) departure(8), then a pattern that the token gives        network order

18 octets are all that a frame of 64 octets has room for behind Ethernet, IPv4 and UDP. `departure` is the sender's UTC in ns,
`sequence` counts the packets of a phase modulo 2^32, all flows together. What the receiver tells the sender meanwhile begins alike:

    token(4) phase(1) flow(1) count(4) time(8) received(8) received bytes(8) next sequence(8) dropped(8) span ns(8)

Phase 0 is none: a `Told` of phase 0 only shows the address a flow has.
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError

HEAD = np.dtype([("token", ">u4"), ("phase", "u1"), ("flow", "u1"), ("sequence", ">u4"), ("sent_ns", ">i8")])
ARRIVAL = np.dtype([("seq", "<i8"), ("flow", "u1"), ("sent_ns", "<i8"), ("received_ns", "<i8")])
HEAD_BYTES = HEAD.itemsize
HEADERS = {4: 28, 6: 48}  # octets of IP and UDP before the payload, by IP version
_TOLD = struct.Struct(">IBBIQ5Q")
TOLD_BYTES = _TOLD.size

Octets = npt.NDArray[np.uint8]
Heads = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Told:
    """What a receiver has of a phase so far. `next_seq`: one beyond the newest; `span_ns`: first to last arrival."""

    token: int
    phase: int
    flow: int
    count: int = 0
    time_ns: int = 0
    received: int = 0
    received_bytes: int = 0
    next_seq: int = 0
    dropped: int = 0
    span_ns: int = 0

    def encode(self) -> bytes:
        """Its octets."""
        return _TOLD.pack(*astuple(self))

    @classmethod
    def decode(cls, data: bytes) -> Told:
        """The inverse of `encode`. WireError for any other length."""
        if len(data) != TOLD_BYTES:
            raise WireError(f"a receiver's word has {TOLD_BYTES} octets, not {len(data)}")
        return cls(*_TOLD.unpack(data))


def phase_octet(number: int) -> int:
    """How phase `number` (1, 2, ...) is written: 1 to 255, never 0."""
    return (number - 1) % 255 + 1


def template(token: int, octets: int) -> Octets:
    """A whole packet of that many octets of payload, at least HEAD_BYTES, with everything but phase, flow, sequence and time."""
    if octets < HEAD_BYTES:
        raise WireError(f"a packet of load has at least {HEAD_BYTES} octets of payload, not {octets}")
    row = ((np.arange(octets) * 37 + token) & 0xFF).astype(np.uint8)
    row[:HEAD_BYTES].view(HEAD)["token"] = token
    return row


def heads(payload: Octets, first: int, rows: int, packets: int = 1, octets: int = 0) -> Heads:
    """The heads in rows [first, first + rows) of a block, shape (rows, packets): each row holds so many packets of `octets` each.

    A view: what is written to it is written to the packets. Every row must reach to the end of its last head.
    """
    width = payload.shape[1]
    if (packets - 1) * octets + HEAD_BYTES > width or first + rows > payload.shape[0]:
        raise WireError("the rows end before their last head")
    return np.ndarray((rows, packets), HEAD, payload, first * payload.strides[0], (payload.strides[0], octets or width))


def intact(packets: Octets, lengths: npt.NDArray[np.int64], pattern: Octets) -> npt.NDArray[np.bool_]:
    """Which packets, shape (n, octets), carry behind their heads what was sent, each as far as it is long; shape (n,)."""
    octets = packets.shape[1]
    same = packets[:, HEAD_BYTES:] == pattern[HEAD_BYTES:octets]
    if len(lengths) and int(lengths.min()) < octets:
        same |= np.arange(HEAD_BYTES, octets) >= lengths[:, None]
    whole: npt.NDArray[np.bool_] = same.all(axis=1)
    return whole
