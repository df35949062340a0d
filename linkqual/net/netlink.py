"""What the kernel tells over rtnetlink: which interface a packet to an address leaves by, and what its queues dropped. Floor 3.

Of the calling thread's network namespace. `ip` and `tc` say the same, but a counter that is read every second starts no program.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from linkqual.errors import HostError
from linkqual.net.sockets import address_octets

_GETROUTE, _GETQDISC = 26, 38
_REQUEST, _DUMP = 1, 0x300
_ERROR, _DONE = 2, 3
_RTA_DST, _RTA_OIF = 1, 4
_TCA_STATS2, _STATS_QUEUE = 7, 3
_ROOT, _INGRESS = 0xFFFF_FFFF, 0xFFFF_FFF1
_HEAD = struct.Struct("=IHHII")  # nlmsghdr
_ROUTE = struct.Struct("=8BI")  # rtmsg
_QDISC = struct.Struct("=B3xiIII")  # tcmsg
_QUEUE = struct.Struct("=5I")  # gnet_stats_queue: qlen, backlog, drops, requeues, overlimits
_ATTRIBUTE = struct.Struct("=HH")
_READ_BYTES = 1 << 17
_NESTED = 0x8000


@dataclass(frozen=True, slots=True)
class Queue:
    """The outermost queue of an interface: packets it refused or threw away, and those the driver gave back to it."""

    interface: str
    ingress: bool
    drops: int
    requeues: int


def queues() -> list[Queue]:
    """The root queueing disciplines (their counters hold those of the inner ones too) and the ingress ones; [] if none can be read."""
    found: list[Queue] = []
    with contextlib.suppress(OSError, struct.error):
        for body in _asked(_GETQDISC, _QDISC.pack(0, 0, 0, 0, 0), dump=True):
            _, index, _, parent, _ = _QDISC.unpack_from(body)
            if parent not in (_ROOT, _INGRESS):
                continue
            stats = dict(_attributes(body[_QDISC.size :])).get(_TCA_STATS2, b"")
            queue = dict(_attributes(stats)).get(_STATS_QUEUE, b"")
            if len(queue) >= _QUEUE.size:
                _, _, drops, requeues, _ = _QUEUE.unpack_from(queue)
                found.append(Queue(socket.if_indextoname(index), parent == _INGRESS, drops, requeues))
    return found


def outgoing_interface(address: str) -> str | None:
    """The interface a packet to this numeric address leaves by; None for a name, without a route, or when it can't be asked."""
    try:
        octets = address_octets(address)
    except HostError:
        return None
    family = socket.AF_INET if len(octets) == 4 else socket.AF_INET6
    body = _ROUTE.pack(family, 8 * len(octets), 0, 0, 0, 0, 0, 0, 0)
    body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(octets), _RTA_DST) + octets
    with contextlib.suppress(OSError, struct.error):
        for answer in _asked(_GETROUTE, body):
            index = dict(_attributes(answer[_ROUTE.size :])).get(_RTA_OIF, b"")
            if len(index) == 4:
                return socket.if_indextoname(int.from_bytes(index, "little"))
    return None


def _asked(kind: int, body: bytes, dump: bool = False) -> Iterator[bytes]:
    """The bodies of the answers. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asking:
        asking.settimeout(2)
        asking.bind((0, 0))
        flags = _REQUEST | (_DUMP if dump else 0)
        asking.send(_HEAD.pack(_HEAD.size + len(body), kind, flags, 1, 0) + body)
        while True:
            data = asking.recv(_READ_BYTES)
            for answer, answer_kind in _messages(data):
                if answer_kind == _ERROR:
                    number = -int.from_bytes(answer[:4], "little", signed=True)
                    raise OSError(number, "rtnetlink")
                if answer_kind == _DONE:
                    return
                yield answer
            if not dump:
                return


def _messages(data: bytes) -> Iterator[tuple[bytes, int]]:
    at = 0
    while at + _HEAD.size <= len(data):
        length, kind, _, _, _ = _HEAD.unpack_from(data, at)
        if length < _HEAD.size:
            return
        yield data[at + _HEAD.size : at + length], kind
        at += (length + 3) & ~3


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & ~_NESTED, data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
