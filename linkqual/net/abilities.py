"""What this process may do on this host: found by trying, never by guessing from user ids or capability bits. Floor 3."""

from __future__ import annotations

import array
import os
import select
import shutil
import socket
import sys
import time
from dataclasses import dataclass

from linkqual.errors import HostError
from linkqual.net import child

_SO_TIMESTAMPING, _SO_RCVBUFFORCE = 37, 33
_TX_SOFTWARE, _RX_SOFTWARE, _SOFTWARE, _OPT_ID, _OPT_TSONLY = 2, 8, 16, 128, 2048
_WANTED_BUFFER = 16 << 20
_PATIENCE_S = 1.0
_PACKET_S = 0.2

# One word a line for what works. The link is made in the trial's own namespaces and goes with them.
_NAMESPACE_TRIAL = """
ip link add lqa type veth peer name lqb && echo veth
tc qdisc add dev lqa root tbf rate 1gbit burst 64kb latency 10ms && echo tbf
nft add table inet lq && echo nft
[ -r /dev/net/tun ] && [ -w /dev/net/tun ] && ip tuntap add lqt mode tun && echo tun
true
"""


@dataclass(frozen=True, slots=True)
class Buffers:
    """Receive buffer of a socket in bytes as the kernel counts it: granted when asked politely, and with SO_RCVBUFFORCE."""

    granted: int
    forced: int | None  # None: not allowed


def raw_sockets() -> bool:
    """Whether raw ICMP sockets may be opened (traces need them)."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    except OSError:
        return False
    return True


def namespaces() -> tuple[bool, frozenset[str]]:
    """Whether this user may enter namespaces of its own (with a user namespace around them), and what works in them.

    Words: veth, tbf, nft, tun. Some systems allow the namespace and then no rights in it, so a link is made in it.
    """
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False, frozenset()
    in_user = ["--user", "--map-root-user"]
    for rights in ([], in_user) if os.geteuid() == 0 else (in_user,):  # root of a container may lack the rights
        words = _try_in(rights)
        if "in" in words:
            return True, words - {"in"}
    return False, frozenset()


def _try_in(rights: list[str]) -> frozenset[str]:
    """The words the trial says in new namespaces; none when they are refused."""
    command = ["unshare", *rights, "--net", "--mount", "--pid", "--fork", "sh", "-c", f"echo in;{_NAMESPACE_TRIAL}"]
    try:
        ended = child.run(command, timeout_s=10)
    except HostError:
        return frozenset()
    return frozenset(ended.output.decode(errors="replace").split())


def buffers() -> Buffers:
    """What the kernel grants of 16 MiB of receive buffer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WANTED_BUFFER)
        granted = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        try:
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _WANTED_BUFFER)
        except OSError:
            return Buffers(granted, None)
        return Buffers(granted, sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))


def stamps(address: str = "127.0.0.1") -> frozenset[str]:
    """Which kernel stamps a packet to ourselves gets: "tx", "rx", both or none.

    The first who asks for RX stamps switches them on in the background: packets until then have none, so it is tried again.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found: set[str] = set()
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            wanted = _TX_SOFTWARE | _RX_SOFTWARE | _SOFTWARE | _OPT_ID | _OPT_TSONLY
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, wanted)
            sock.bind((address, 0))
            give_up = time.monotonic() + _PATIENCE_S
            while found != {"tx", "rx"} and time.monotonic() < give_up:
                found |= _stamps_of_one_packet(sock)
    except OSError:
        pass
    return frozenset(found)


def _stamps_of_one_packet(sock: socket.socket) -> set[str]:
    found = set()
    sock.sendto(b"stamp", sock.getsockname())
    # The error queue first: while it holds anything, poll returns at once and no wait for the packet is one.
    if _arrived(sock, select.POLLERR) and _stamped(sock, socket.MSG_ERRQUEUE):
        found.add("tx")
    if _arrived(sock, select.POLLIN) and _stamped(sock, 0):
        found.add("rx")
    return found


def _arrived(sock: socket.socket, event: int) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return any(seen & event for _, seen in poll.poll(_PACKET_S * 1000))


def _stamped(sock: socket.socket, flags: int) -> bool:
    """Whether the next message carries a software stamp: the first of three timespecs is not zero."""
    _, ancillary, _, _ = sock.recvmsg(64, 512, flags)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPING:
            seconds = array.array("q", data[:8])
            return seconds[0] > 0
    return False
