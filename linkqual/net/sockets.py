"""A UDP socket whose packets are stamped by the kernel on the way out and on the way in (Linux, IPv4 and IPv6).

SO_TIMESTAMPING: an RX stamp comes with every message, a TX stamp over the error queue, numbered by OPT_ID and without the
packet (OPT_TSONLY); those of a network card besides where `stamp_by_card` asks for them. IP_RECVERR: without it Linux reports a datagram that a full local queue dropped as sent, and the
host's own loss would be called the line's. The drop counter is SO_MEMINFO's: the one SO_RXQ_OVFL reports, but readable at
any time, so that the layout of the ancillary data stays fixed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys

from linkqual.errors import HostError, PeerError
from linkqual.net.messages import (
    MSG_ERRQUEUE,
    SCM_TS_OPT_ID,
    Longs,
    MessageBlock,
    SentStamps,
    error_ancillary,
    joined,
)

Address = tuple[str, int] | tuple[str, int, int, int]

_SO_RCVBUFFORCE, _SO_SNDBUFFORCE, _SO_MEMINFO, _SO_TIMESTAMPING = 33, 32, 55, 37
_MEMINFO_DROPS = 8  # index in the array of u32
_TX_SOFTWARE, _RX_SOFTWARE, _SOFTWARE, _OPT_ID, _OPT_TSONLY = 2, 8, 16, 128, 2048
_STAMPS = _RX_SOFTWARE | _SOFTWARE
_ALL_STAMPS = _STAMPS | _TX_SOFTWARE | _OPT_ID | _OPT_TSONLY
_CARD_STAMPS = (
    1 | 4 | 64 | 16384
)  # TX_HARDWARE, RX_HARDWARE, RAW_HARDWARE, OPT_TX_SWHW: without the last the kernel's would stay out
_IP_RECVERR, _IP_RECVTTL, _IP_RECVTOS, _IP_MTU_DISCOVER = 11, 12, 13, 10
_IPV6_RECVERR, _IPV6_RECVHOPLIMIT, _IPV6_RECVTCLASS, _IPV6_TCLASS, _IPV6_MTU_DISCOVER = 25, 51, 66, 67, 23
_PMTUDISC_PROBE = 3  # never fragment, never shrink to a learned MTU: the size sent is the size tested
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_ERROR_BATCH = 256
_ID_MODULUS = 2**32
_ID = struct.Struct("=I")


class StampedSocket:
    """One UDP socket, bound and perhaps connected; the file descriptor is non-blocking."""

    def __init__(
        self,
        bind: str,
        port: int = 0,
        *,
        peer: tuple[str, int] | None = None,
        buffer_bytes: int = 16 << 20,
        dscp: int = 0,
        ecn: int = 0,
        ttl: int = 255,
        departures: bool = True,
    ) -> None:
        """`bind` "" lets the kernel choose. Without `departures` nothing is stamped on its way out. Raises HostError (address, port, rights) and PeerError (no route, no such name)."""
        if sys.platform != "linux":
            raise HostError("the probe engine needs Linux", hint="run linkqual on a Linux host or virtual machine")
        remote = _resolve(*peer) if peer else None
        self.family = remote[0] if remote else _resolve(bind or "0.0.0.0", port)[0]  # noqa: S104
        self._socket = socket.socket(self.family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.descriptor = self._socket.fileno()
        self._errors = MessageBlock(_ERROR_BATCH, 8)
        self.by_card = False
        self._departures = departures
        self.receive_buffer_bytes = _grant(self._socket, _SO_RCVBUFFORCE, socket.SO_RCVBUF, buffer_bytes)
        self.send_buffer_bytes = _grant(self._socket, _SO_SNDBUFFORCE, socket.SO_SNDBUF, buffer_bytes // 4)
        self._set_options(dscp << 2 | ecn, ttl)
        self.restart_ids()
        try:
            if bind or port:
                any_address = "::" if self.family == socket.AF_INET6 else "0.0.0.0"  # noqa: S104
                self._socket.bind(_resolve(bind or any_address, port)[1])
        except OSError as error:
            self.close()
            hints = {
                errno.EADDRINUSE: "choose another port, or 0 for any",
                errno.EACCES: "ports below 1024 need root or CAP_NET_BIND_SERVICE; or choose a higher one",
            }
            hint = hints.get(error.errno or 0, "take an address of this host")
            raise HostError(f"cannot bind UDP {bind or '*'} port {port}: {error.strerror}", hint=hint) from error
        if remote:
            self._connect(remote[1])

    def _connect(self, address: Address) -> None:
        try:
            self._socket.connect(address)
        except OSError as error:
            self.close()
            raise PeerError(f"no way to {address[0]}: {error.strerror}", hint="check routes and addresses") from error

    def connect(self, host: str, port: int) -> bool:
        """From now on only this peer's packets reach the buffer, and sending needs no address; False: there is no way to it."""
        with contextlib.suppress(OSError):
            self._socket.connect(_resolve(host, port)[1])
            return True
        return False

    def _set_options(self, tos: int, ttl: int) -> None:
        ip, ip6 = socket.IPPROTO_IP, socket.IPPROTO_IPV6
        if self.family == socket.AF_INET6:
            options: tuple[tuple[int, int, int], ...] = (
                (ip6, socket.IPV6_V6ONLY, 1),
                (ip6, socket.IPV6_UNICAST_HOPS, ttl),
                (ip6, _IPV6_TCLASS, tos),
                (ip6, _IPV6_RECVERR, 1),
                (ip6, _IPV6_RECVHOPLIMIT, 1),
                (ip6, _IPV6_RECVTCLASS, 1),
                (ip6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE),
            )
        else:
            options = (
                (ip, socket.IP_TTL, ttl),
                (ip, socket.IP_TOS, tos),
                (ip, _IP_RECVERR, 1),
                (ip, _IP_RECVTTL, 1),
                (ip, _IP_RECVTOS, 1),
                (ip, _IP_MTU_DISCOVER, _PMTUDISC_PROBE),
            )
        for level, name, value in options:
            self._socket.setsockopt(level, name, value)

    def set_tos(self, tos: int) -> None:
        """TOS byte or Traffic Class of what is sent from now on."""
        if self.family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_TCLASS, tos)
        else:
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)

    @property
    def address(self) -> str:
        """Local address."""
        return str(self._socket.getsockname()[0])

    @property
    def port(self) -> int:
        """Local port."""
        return int(self._socket.getsockname()[1])

    @property
    def peer(self) -> str:
        """Address of the peer it is connected to, without a zone."""
        return str(self._socket.getpeername()[0]).partition("%")[0]

    def restart_ids(self) -> None:
        """The next datagram's TX stamp has the id 0: after a refused send nobody knows whether it used up an id."""
        for flags in (_STAMPS, _ALL_STAMPS) if self._departures else (_STAMPS,):
            wanted = flags | (_CARD_STAMPS if self.by_card else 0)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, wanted)

    def stamp_by_card(self) -> None:
        """From now on the network card stamps packets too, each with a message of its own on the error queue."""
        self.by_card = True
        self.restart_ids()

    def cut_trains(self, octets: int) -> bool:
        """From now on a long datagram leaves as a train of packets of so many octets of payload (UDP_SEGMENT); 0: as it is.

        False: this kernel cannot.
        """
        with contextlib.suppress(OSError):
            self._socket.setsockopt(_SOL_UDP, _UDP_SEGMENT, octets)
            return True
        return False

    def join_trains(self, *, joined: bool) -> bool:
        """Whether packets of one length that came together are read as one message (UDP_GRO). False: this kernel cannot."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(_SOL_UDP, _UDP_GRO, int(joined))
            return True
        return False

    def receive(self, block: MessageBlock, first: int = 0) -> int:
        """Messages that are there, at most a block full, from row `first` on. A pending ICMP error is left to `sent_stamps`, which sees it too."""
        for _ in range(4):
            with contextlib.suppress(OSError):
                return block.receive(self.descriptor, first=first)
        return 0

    def send(self, data: bytes | bytearray, number: int | None = None) -> int:
        """One datagram to the connected peer; `number`: the id of its TX stamp. 0, or the errno of the refusal."""
        try:
            if number is None:
                self._socket.send(data)
            else:
                self._socket.sendmsg((data,), ((socket.SOL_SOCKET, SCM_TS_OPT_ID, _ID.pack(number & 0xFFFF_FFFF)),))
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def sent_stamps(self) -> SentStamps:
        """All that is on the error queue."""
        parts = []
        while True:
            count = self._errors.receive(self.descriptor, MSG_ERRQUEUE)
            if count:
                parts.append(error_ancillary(self._errors, count, card=self.by_card))
            if count < self._errors.count:
                return joined(parts)

    def dropped(self) -> int:
        """Packets this socket lost because its receive buffer was full (or their checksum wrong) since it was opened."""
        info = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_MEMINFO_DROPS + 1))
        return int(struct.unpack_from("=I", info, 4 * _MEMINFO_DROPS)[0]) if len(info) > 4 * _MEMINFO_DROPS else 0

    def close(self) -> None:
        """Idempotent."""
        self._socket.close()


def address_octets(address: str) -> bytes:
    """The 4 or 16 octets of a numeric address (a zone after % is left out). Raises HostError for anything else."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            return socket.inet_pton(family, address.partition("%")[0])
    raise HostError(f"{address!r} is no IP address", hint="give a numeric IPv4 or IPv6 address")


def truesize(packet_bytes: int) -> int:
    """Octets of a receive buffer that a packet takes, not less than the kernel counts (a TX stamp: a packet of 0)."""
    return 1024 + 2 * packet_bytes


def errno_name(number: int) -> str:
    """ "ENOBUFS"."""
    return errno.errorcode.get(number, os.strerror(number))


def _resolve(host: str, port: int) -> tuple[int, Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise PeerError(
            f"{host!r} has no address: {error.strerror}", hint="check the name, or give its address"
        ) from error
    family, _, _, _, address = found[0]
    return int(family), address  # type: ignore[return-value]


def _grant(sock: socket.socket, force: int, ask: int, wanted: int) -> int:
    """Octets of buffer granted, as the kernel counts them: root gets what it asks for, others up to net.core.[rw]mem_max."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, wanted)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, ask, wanted)
    return sock.getsockopt(socket.SOL_SOCKET, ask)


class SendNumbers:
    """Which datagram a TX stamp belongs to. The caller numbers its datagrams.

    From Linux 6.13 on each is sent with its number as the stamp's id. Before, the kernel counts by itself, and after a refused
    send nobody knows whether it used up an id: counting starts anew then, and a stamp that was still waiting in a queue
    may be taken for that of another packet a few later.
    """

    def __init__(self, socket_: StampedSocket, first: int) -> None:
        self._socket = socket_
        self._next = first
        self._ids = 0
        self.explicit = True

    def sent(self, count: int) -> None:
        """The kernel took the next `count` datagrams."""
        self._next += count
        self._ids += count

    def restart(self, number: int) -> None:
        """After a refusal: the next datagram to be sent has this number."""
        self._next, self._ids = number, 0
        if not self.explicit:
            self._socket.restart_ids()

    def count(self) -> None:
        """The kernel knows no ids of ours: from the next restart on let it count."""
        self.explicit = False

    def of(self, ids: Longs) -> Longs:
        """Numbers of these ids (modulo 2^32), as of those already handed over."""
        used = self._next if self.explicit else self._ids
        return self._next - (used - ids - 1) % _ID_MODULUS - 1
