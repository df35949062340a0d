"""Batches of UDP messages, laid out once in numpy arrays as the kernel wants them, and the system calls that move them (Linux).

One `MessageBlock` is an array of `struct mmsghdr` with a payload, a name and a control row for each message:

    struct mmsghdr, 64 octets                                 payload  (count, width)   the packets
    name, namelen, iov, iovlen, control, controllen, flags,   names    (count, 28)      struct sockaddr_in / sockaddr_in6
    and len: octets moved                                     control  (count, 192)     ancillary data

The addresses in it never change, so a call costs one ctypes call however many messages it moves; what comes back is read as
columns. Ancillary data has a fixed layout when a socket is set up as in `sockets`, so stamps are read as int64 columns too.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linkqual.records import ABSENT
from linkqual.units import NS_PER_S

_libc = ctypes.CDLL(None, use_errno=True)
_pointer = ctypes.c_void_p
for _name, _arguments in {
    "sendmmsg": (ctypes.c_int, _pointer, ctypes.c_uint, ctypes.c_int),
    "recvmmsg": (ctypes.c_int, _pointer, ctypes.c_uint, ctypes.c_int, _pointer),
}.items():
    if hasattr(_libc, _name):  # absent outside Linux, where sockets.StampedSocket refuses to open
        getattr(_libc, _name).argtypes = _arguments

MSG_ERRQUEUE = 0x2000
_DONT_WAIT, _NO_SIGNAL = int(socket.MSG_DONTWAIT), int(socket.MSG_NOSIGNAL)  # an IntFlag is slow in a loop
NAME_BYTES = 28  # the longer of sockaddr_in (16) and sockaddr_in6
CONTROL_BYTES = 192
MESSAGE_BYTES = 64
_MSG_TRUNC = 0x20
SCM_TS_OPT_ID = 81
_SET_TTL = {4: (int(socket.IPPROTO_IP), 2), 6: (int(socket.IPPROTO_IPV6), 52)}  # IP_TTL, IPV6_HOPLIMIT
_ID_MESSAGE_LENGTH, _ID_MESSAGE_SPACE, _ID_HEAD = 20, 24, socket.SOL_SOCKET | SCM_TS_OPT_ID << 32

_MMSGHDR = np.dtype(
    {
        "names": ["name", "namelen", "iov", "iovlen", "control", "controllen", "flags", "len"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "u4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": MESSAGE_BYTES,
    }
)

Octets = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]


class MessageBlock:
    """`count` messages of at most `width` octets; see the module's head."""

    def __init__(self, count: int, width: int, *, named: bool = False, control: bool = True) -> None:
        self.count = count
        self.width = width
        self.payload: Octets = np.zeros((count, width), np.uint8)
        self.names: Octets = np.zeros((count, NAME_BYTES), np.uint8)
        self.control: Octets = np.zeros((count, CONTROL_BYTES), np.uint8)
        self._named, self._controlled = named, control
        rows = np.arange(count, dtype=np.uint64)
        self._vectors = np.zeros((count, 2), np.uint64)
        self._vectors[:, 0] = self.payload.ctypes.data + rows * np.uint64(width)
        self._vectors[:, 1] = width
        self._headers = np.zeros(count, _MMSGHDR)
        self._headers["iov"] = self._vectors.ctypes.data + rows * np.uint64(16)
        self._headers["iovlen"] = 1
        if named:
            self._headers["name"] = self.names.ctypes.data + rows * np.uint64(NAME_BYTES)
        if control:
            self._headers["control"] = self.control.ctypes.data + rows * np.uint64(CONTROL_BYTES)
        self._address = self._headers.ctypes.data
        self.sizes = self._vectors[:, 1]  # octets to send, or room to receive
        self.lengths = self._headers["len"]  # octets received
        self.flags = self._headers["flags"]
        self.name_lengths = self._headers["namelen"]
        self.control_lengths = self._headers["controllen"]
        self.longs: Longs = self.control.view(np.int64)  # of the control data
        self._prepared = False  # every row's control data is an id, of which the number alone changes

    def receive(self, descriptor: int, flags: int = 0, first: int = 0) -> int:
        """Take what is there without waiting, into the rows from `first` on; how many, 0: nothing.

        Raises OSError for anything but "nothing there".
        """
        self.sizes[first:] = self.width
        if self._named:
            self.name_lengths[first:] = NAME_BYTES
        if self._controlled:
            self.control_lengths[first:] = CONTROL_BYTES
            self._prepared = False
        at = self._address + first * MESSAGE_BYTES
        got: int = _libc.recvmmsg(descriptor, at, self.count - first, flags | _DONT_WAIT, None)
        if got >= 0:
            return got
        number = ctypes.get_errno()
        if number in (errno.EAGAIN, errno.EINTR):
            return 0
        raise OSError(number, "recvmmsg")

    @property
    def named(self) -> bool:
        """Whether the peer's address is read with each message, and sent to."""
        return self._named

    def gather(self, rows: Longs) -> None:
        """Received messages `rows` (ascending) move to the front, so that one call sends them; ancillary data stays behind."""
        count = len(rows)
        width = int(self.lengths[rows].max(initial=0))
        self.payload[:count, :width] = self.payload[rows, :width]
        self.lengths[:count] = self.lengths[rows]
        if self._named:
            self.names[:count], self.name_lengths[:count] = self.names[rows], self.name_lengths[rows]

    def forget_names(self) -> None:
        """The socket is connected: addresses cost time for nothing."""
        self._named = False
        self._headers["name"] = self._headers["namelen"] = 0

    def prepare_replies(self, first: int, stop: int) -> None:
        """Received messages [first, stop) go back as long as they came, to the names they came from, without control data."""
        self.sizes[first:stop] = self.lengths[first:stop]
        self.without_numbers(first, stop)

    def number(self, first: int, numbers: Longs) -> None:
        """The TX stamps of messages from `first` on shall carry these ids (modulo 2^32); Linux 6.13, else EINVAL on sending."""
        if not self._prepared:
            self.longs[:, 0], self.longs[:, 1] = _ID_MESSAGE_LENGTH, _ID_HEAD
            self.control_lengths[:] = _ID_MESSAGE_SPACE
            self._prepared = True
        self.longs[first : first + len(numbers), 2] = numbers  # the kernel reads the low half

    def without_numbers(self, first: int, stop: int) -> None:
        """Messages [first, stop) carry no control data: the kernel counts."""
        self.control_lengths[first:stop] = 0
        self._prepared = False

    def expire(self, ttls: Longs, ip_version: int) -> None:
        """The first messages leave with these TTLs or Hop Limits; 0: the socket's own."""
        level, kind = _SET_TTL[ip_version]
        self.longs[: len(ttls), 0], self.longs[: len(ttls), 1] = _ID_MESSAGE_LENGTH, level | kind << 32
        self.longs[: len(ttls), 2] = ttls
        self.control_lengths[: len(ttls)] = np.where(ttls > 0, _ID_MESSAGE_SPACE, 0)
        self._prepared = False

    def send(self, descriptor: int, first: int, stop: int) -> tuple[int, int]:
        """Hand over messages [first, stop) without waiting: (how many the kernel took, errno of the one it refused or 0)."""
        taken: int = _libc.sendmmsg(
            descriptor, self._address + first * MESSAGE_BYTES, stop - first, _DONT_WAIT | _NO_SIGNAL
        )
        if taken < 0:
            return 0, ctypes.get_errno()
        return taken, 0

    def truncated(self, count: int) -> npt.NDArray[np.bool_]:
        """Which received messages were longer than their row."""
        return np.asarray((self.flags[:count] & _MSG_TRUNC) != 0)


# ---- ancillary data

_SOL_SOCKET, _SCM_TIMESTAMPING = 1, 37
_STAMP_HEAD = _SOL_SOCKET | _SCM_TIMESTAMPING << 32  # cmsg_level and cmsg_type as one little-endian int64
_TTL_TYPES = {(socket.IPPROTO_IP, 2), (socket.IPPROTO_IPV6, 52)}  # IP_TTL, IPV6_HOPLIMIT
_TOS_TYPES = {(socket.IPPROTO_IP, 1), (socket.IPPROTO_IPV6, 67)}  # IP_TOS, IPV6_TCLASS
_ERROR_TYPES = {(socket.IPPROTO_IP, 11), (socket.IPPROTO_IPV6, 25)}  # IP_RECVERR, IPV6_RECVERR
_ERROR_HEADS = tuple(level | kind << 32 for level, kind in sorted(_ERROR_TYPES))
_ORIGIN_TIMESTAMPING = 4
_TTL_AT, _TOS_AT, _RECEIVED_BYTES = 80, 104, 112  # stamp 64 octets, TTL 24, TOS 24
_ERROR_AT = 80
_JOINED_AT, _JOINED_HEAD = 64, 17 | 104 << 32  # behind the stamp: SOL_UDP, UDP_GRO
_CARD_AT = 6  # the third timespec of scm_timestamping, in int64


def received_ancillary(block: MessageBlock, count: int) -> tuple[Longs, Octets, Octets]:
    """(kernel RX stamp in UTC ns, TTL or Hop Limit, TOS or Traffic Class), each shape (count,), of received messages.

    A message without a stamp (the kernel switches stamping on a moment after the socket asked) has ABSENT, without TTL or TOS 0.
    """
    longs = block.longs[:count]
    stamps = longs[:, 2] * NS_PER_S + longs[:, 3]
    ttl = block.control[:count, _TTL_AT].copy()
    tos = block.control[:count, _TOS_AT].copy()
    usual = (block.control_lengths[:count] == _RECEIVED_BYTES) & (longs[:, 1] == _STAMP_HEAD)
    if not usual.all():
        for row in np.flatnonzero(~usual):
            stamps[row], ttl[row], tos[row] = ABSENT, 0, 0
            for level, kind, data in _walk(block, int(row)):
                if (level, kind) == (_SOL_SOCKET, _SCM_TIMESTAMPING):
                    stamps[row] = _instant(data)
                elif (level, kind) in _TTL_TYPES:
                    ttl[row] = data[0]
                elif (level, kind) in _TOS_TYPES:
                    tos[row] = data[0]
    return stamps, ttl, tos


def received_card(block: MessageBlock, count: int) -> Longs:
    """RX stamps of the network card on its own clock, ns, shape (count,), of received messages; ABSENT where there is none."""
    longs = block.longs[:count]
    stamps = longs[:, _CARD_AT] * NS_PER_S + longs[:, _CARD_AT + 1]
    return np.where((longs[:, 1] == _STAMP_HEAD) & (stamps != 0), stamps, ABSENT)


def received_joined(block: MessageBlock, count: int) -> tuple[Longs, Longs]:
    """(kernel RX stamp in UTC ns or ABSENT, octets of each packet that UDP_GRO joined into the message or 0), each shape (count,)."""
    longs = block.longs[:count]
    lengths = block.control_lengths[:count]
    stamped = (lengths >= _JOINED_AT) & (longs[:, 1] == _STAMP_HEAD)
    stamps = np.where(stamped, longs[:, 2] * NS_PER_S + longs[:, 3], ABSENT)
    at = _JOINED_AT // 8
    joined = stamped & (lengths >= _JOINED_AT + 20) & (longs[:, at + 1] == _JOINED_HEAD)
    return stamps, np.where(joined, longs[:, at + 2] & 0xFFFF, 0)


class SentStamps(NamedTuple):
    """What the error queue told. The ids are those the datagrams were sent with, or count them, modulo 2^32."""

    ids: Longs
    stamps: Longs  # kernel TX stamps, UTC ns
    errnos: list[int]  # of ICMP errors
    card_ids: Longs
    card_stamps: Longs  # TX stamps of the network card on its own clock, ns


_NONE = np.empty(0, np.int64)


def error_ancillary(block: MessageBlock, count: int, *, card: bool = False) -> SentStamps:
    """Of messages from the error queue. `card`: the socket asked for stamps of the network card too; each has a message of its own."""
    control = block.control[:count]
    longs = block.longs[:count]
    usual = (longs[:, 1] == _STAMP_HEAD) & ((longs[:, 9] == _ERROR_HEADS[0]) | (longs[:, 9] == _ERROR_HEADS[1]))
    usual &= control[:, _ERROR_AT + 4] == _ORIGIN_TIMESTAMPING
    usual &= block.control_lengths[:count] >= _ERROR_AT + 16
    stamps = longs[:, 2] * NS_PER_S + longs[:, 3]
    ids = control[:, _ERROR_AT + 12 : _ERROR_AT + 16].copy().view("<u4")[:, 0].astype(np.int64)
    errnos: list[int] = []
    if not usual.all():
        errnos = [number for row in np.flatnonzero(~usual) if (number := _icmp_errno(block, int(row)))]
    if not card:
        return (
            SentStamps(ids, stamps, [], _NONE, _NONE)
            if usual.all()
            else SentStamps(ids[usual], stamps[usual], errnos, _NONE, _NONE)
        )
    timed = longs[:, _CARD_AT] * NS_PER_S + longs[:, _CARD_AT + 1]
    kernels, cards = usual & (stamps != 0), usual & (timed != 0)
    return SentStamps(ids[kernels], stamps[kernels], errnos, ids[cards], timed[cards])


def joined(parts: list[SentStamps]) -> SentStamps:
    """Several as one."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return SentStamps(_NONE, _NONE, [], _NONE, _NONE)
    ids, stamps, card_ids, card_stamps = (np.concatenate([part[at] for part in parts]) for at in (0, 1, 3, 4))
    return SentStamps(ids, stamps, [number for part in parts for number in part.errnos], card_ids, card_stamps)


def _walk(block: MessageBlock, row: int) -> list[tuple[int, int, bytes]]:
    data = block.control[row, : int(block.control_lengths[row])].tobytes()
    found, at = [], 0
    while at + 16 <= len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        if length < 16:
            break
        level, kind = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (8, 12))
        found.append((level, kind, data[at + 16 : at + length]))
        at += (length + 7) & ~7
    return found


def _instant(data: bytes) -> int:
    seconds, rest = (int.from_bytes(data[i : i + 8], "little", signed=True) for i in (0, 8))
    return seconds * NS_PER_S + rest if seconds else ABSENT


def _icmp_errno(block: MessageBlock, row: int) -> int:
    for level, kind, data in _walk(block, row):
        if (level, kind) in _ERROR_TYPES and data[4] != _ORIGIN_TIMESTAMPING:
            return int.from_bytes(data[:4], "little")
    return 0


def runs(values: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """[start, stop) of stretches of equal values."""
    if not len(values):
        return
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    if not len(edges):
        yield 0, len(values)
        return
    bounds = [0, *edges.tolist(), len(values)]
    yield from itertools.pairwise(bounds)
