"""A trace of one UDP flow, and the target that answers at its other end. Floor 3.

    near end                    routers                      far end
    trace() --- TTL 1, 2, 3 ... ---> time exceeded
            ------------------------------------------------> Target: a datagram back
                                                              (or nobody listens: port unreachable)

The destination is recognised by a datagram from the flow's port there (`Target` sends it, as long as the probe), else by an
ICMP port unreachable. One more probe carries Record Route (IPv4); the target says what it held when it came.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType

from linkqual.errors import WireError
from linkqual.model import Fault, Trace
from linkqual.net.addresses import bare
from linkqual.net.trace_sockets import PLAIN, Codec, TraceSockets
from linkqual.session.trace import (
    Answer,
    Probe,
    Reply,
    TracePlan,
    fault,
    hops,
    last_ttl,
    step,
    with_egress,
)
from linkqual.wire import trace_probe
from linkqual.wire.icmp import recorded

DEFAULT_PORT = 33434  # where traceroute has always begun

_SLICE_NS = 50_000_000  # how long an interruption may go unnoticed
_TARGET_NS = 50_000_000  # between two looks at the clock of a target that nobody asks
_PROBE_GAP_NS = 4_000_000
_WHOLE_WAY = 64  # TTL
_IP_RECVOPTS = 6


def trace(
    destination: str,
    source_port: int,
    destination_port: int,
    family: int = socket.AF_INET,
    source: str = "",
    max_hops: int = 30,
    rounds: int = 3,
    interrupted: Callable[[], bool] = lambda: False,
    *,
    timeout_ns: int = 1_000_000_000,
    codec: Codec = PLAIN,
    tos: int = 0,
) -> Trace:
    """The hops a packet of this flow meets from here to `destination` (an IP address), nearest first.

    Takes 0.1 s plus a few round trips when every hop answers, about 4 s when some stay silent. Needs no privilege; with the
    right to raw sockets it also learns TTLs. `source` "": as the kernel routes; `source_port` 0: any free
    one; `tos`: TOS or Traffic Class of the probes. Never raises for what network or system do: the Trace then carries a Fault beside the hops found.
    """
    rounds = min(rounds, trace_probe.MAX_NUMBER // max_hops)
    plan = TracePlan(max_hops=max_hops, rounds=rounds, timeout_ns=timeout_ns)
    try:
        with TraceSockets(family, source, source_port, destination, destination_port, codec, tos) as sockets:
            return _run(plan, sockets, destination_port, interrupted)
    except OSError as error:
        return Trace(source, destination, source_port, destination_port, fault=_system_fault(error, source_port))


def _run(plan: TracePlan, sockets: TraceSockets, destination_port: int, interrupted: Callable[[], bool]) -> Trace:
    sent: list[Probe] = []
    replies: dict[int, Reply] = {}
    trouble: Fault | None = None
    while trouble is None:
        ask = step(plan, sent, replies, time.monotonic_ns())
        if ask.done:
            break
        try:
            for ttl in ask.ttls:
                _send(plan, sockets, ttl, sent, replies)
        except OSError as error:
            trouble = _system_fault(error, sockets.source_port)
        if ask.wait_until_ns is not None:
            _listen(sockets, min(ask.wait_until_ns - time.monotonic_ns(), _SLICE_NS), sent, replies)
        if interrupted():
            trouble = Fault("interrupted", "the trace was interrupted")
    found = hops(plan, sent, replies)
    if trouble is None and sockets.family == socket.AF_INET and any(reply.by_target for reply in replies.values()):
        found = with_egress(found, _recorded(plan, sockets, sent, replies), sockets.source, sockets.destination)
    ended = next((reply.answer for reply in replies.values() if reply.answer in {Answer.STOPPED, Answer.NO_WAY}), None)
    return Trace(
        source=sockets.source,
        destination=sockets.destination,
        source_port=sockets.source_port,
        destination_port=destination_port,
        hops=found,
        fault=trouble or fault(found, sockets.destination, ended, plan.max_hops),
    )


def _send(plan: TracePlan, sockets: TraceSockets, ttl: int, sent: list[Probe], replies: dict[int, Reply]) -> None:
    """One probe, unless the end of the path has been seen before this TTL; then hear what comes until the next may go."""
    number = len(sent)
    if ttl > last_ttl(plan, sent, replies):
        return
    sent.append(Probe(number, ttl, time.monotonic_ns()))
    for early in sockets.send(number, ttl):
        _note(early, sent, replies)
    until = time.monotonic_ns() + _PROBE_GAP_NS
    while (left := until - time.monotonic_ns()) > 0:
        _listen(sockets, left, sent, replies)


def _recorded(plan: TracePlan, sockets: TraceSockets, sent: list[Probe], replies: dict[int, Reply]) -> tuple[str, ...]:
    """What Record Route held when a probe came to the destination; nothing where options do not come through."""
    number = len(sent)
    sent.append(Probe(number, _WHOLE_WAY, time.monotonic_ns()))
    with contextlib.suppress(OSError):
        for early in sockets.send(number, _WHOLE_WAY, record_route=True):
            _note(early, sent, replies)
    until = time.monotonic_ns() + plan.explore_wait_ns
    while number not in replies and (left := until - time.monotonic_ns()) > 0:
        _listen(sockets, left, sent, replies)
    return replies[number].recorded if number in replies else ()


def _listen(sockets: TraceSockets, timeout_ns: int, sent: list[Probe], replies: dict[int, Reply]) -> None:
    for reply in sockets.receive(timeout_ns):
        if reply.address != sockets.source or reply.answer is Answer.ARRIVED:  # else: our own kernel found no neighbour
            _note(reply, sent, replies)


def _note(reply: Reply, sent: list[Probe], replies: dict[int, Reply]) -> None:
    if 0 <= reply.number < len(sent):
        replies.setdefault(reply.number, reply)


def _system_fault(error: OSError, source_port: int) -> Fault:
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    hint = {
        "Address already in use": f"something else uses UDP port {source_port}; give another source port",
        "Network is unreachable": "this host has no route there: check its addresses and routes",
        "No route to host": "this host has no route there: check its addresses and routes",
        "Operation not permitted": "a firewall of this host drops the probes: allow outgoing UDP",
        "Cannot assign requested address": "the source address is not one of this host's",
    }.get(reason, "check this host's network")
    return Fault("unreachable" if "unreachable" in reason or "route" in reason else "host", f"trace: {reason}", hint)


class Target:
    """The other end of a trace: answers its probes on one UDP port for a bounded time. Use it in a `with` statement.

    Only `peer` is answered, each probe with one datagram of the same length; at most `max_replies` in all. When the port
    cannot be opened it stays closed (`port` is what was asked for, `error` says why) and the trace ends on port unreachable.
    """

    def __init__(
        self,
        address: str,
        port: int,
        peer: str,
        family: int = socket.AF_INET,
        *,
        seconds: float = 60,
        max_replies: int = 20_000,
    ) -> None:
        self.port = port
        self.error: OSError | None = None
        self._peer = peer
        self._ends_at = time.monotonic() + seconds
        self._left = max_replies
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind((address, port))
        except OSError as error:
            self.error = error
            self._socket.close()
            return
        self.port = self._socket.getsockname()[1]
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, _TARGET_NS // 1000))
        if family == socket.AF_INET:
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVOPTS, 1)
        self._thread = threading.Thread(target=self._serve, name="trace target", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the port. Safe to call twice."""
        self._stop.set()
        with contextlib.suppress(OSError):  # nothing is connected, yet it wakes the thread, which others wait for
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Target:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _serve(self) -> None:
        for _ in itertools.takewhile(lambda _: self._open(), itertools.count()):
            try:
                data, extras, _flags, sender = self._socket.recvmsg(65535, 512)
            except OSError:  # nothing came, or an ICMP error about an answer
                continue
            if sender is not None and bare(sender[0]) == bare(self._peer):
                with contextlib.suppress(WireError, OSError):
                    self._socket.sendto(trace_probe.reply(data, _route_of(extras)), sender)
                    self._left -= 1
        self._socket.close()

    def _open(self) -> bool:
        return not self._stop.is_set() and self._left > 0 and time.monotonic() < self._ends_at


def _route_of(extras: list[tuple[int, int, bytes]]) -> tuple[str, ...]:
    options = (data for level, kind, data in extras if (level, kind) == (socket.IPPROTO_IP, _IP_RECVOPTS))
    return recorded(next(options, b""))
