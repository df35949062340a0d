"""Asks each hop of a flow again and again, in a thread of its own, while something else loads the line. Floor 3."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterable, Sequence

from linkqual.net.trace_sockets import PLAIN, TraceSockets
from linkqual.session.hop_watch import ROUND_NS, Asked, schedule
from linkqual.session.trace import Reply
from linkqual.wire.hops_json import MOST

_SLICE_NS = 10_000_000  # how long the end of the watch may go unnoticed


class HopWatch:
    """Begins at once; `stop` ends it and gives what was asked. Raises OSError when address or port cannot be had.

    Asks no sooner than a round after the trace, watch or train before it, for routers count what they answer by the address that asked.
    """

    def __init__(
        self,
        destination: str,
        source_port: int,
        destination_port: int,
        ttls: Sequence[int],
        family: int = socket.AF_INET,
        source: str = "",
        *,
        seconds: float = 3600,
        base: int = 0,
        tos: int = 0,
    ) -> None:
        """It ends by itself after `seconds`; `base`: octets more than the least in each probe; `tos`: TOS or Traffic Class of them."""
        self.began_ns = time.monotonic_ns()
        self._sockets = TraceSockets(family, source, source_port, destination, destination_port, PLAIN, tos)
        self._ttls, self._base = tuple(ttls), base
        self._until_ns = self.began_ns + round(seconds * 1e9)
        self._asked: list[Asked] = []
        self._latest: dict[int, int] = {}  # number -> place in `_asked`
        self._ended_ns = 0
        self._stop = threading.Event()
        quiet_ns = TraceSockets.latest_ns.get(self._sockets.source, self.began_ns - ROUND_NS)
        self._first_ns = max(self.began_ns, quiet_ns + ROUND_NS)
        self._thread = threading.Thread(target=self._serve, name="hop watch", daemon=True)
        self._thread.start()

    def stop(self) -> tuple[list[Asked], int]:
        """What was asked and answered, and how long the watch lasted, in ns. Safe to call twice."""
        self._stop.set()
        self._thread.join()
        return self._asked, self._ended_ns

    def _serve(self) -> None:
        with self._sockets:
            for ttl, due_ns, number in schedule(self._ttls):
                if len(self._asked) >= MOST or not self._listen(self._first_ns + due_ns):
                    break
                self._send(ttl, number)
            while self._listen(time.monotonic_ns() + _SLICE_NS):
                pass  # nothing more is asked, but answers may still come
            self._ended_ns = time.monotonic_ns() - self.began_ns

    def _send(self, ttl: int, number: int) -> None:
        now = time.monotonic_ns() - self.began_ns
        with contextlib.suppress(OSError):  # refused by this host: not asked
            self._take(self._sockets.send(self._base + number, ttl))
            self._latest[number] = len(self._asked)
            self._asked.append(Asked(ttl, now))

    def _listen(self, until_ns: int) -> bool:
        """Until then; False when the watch is to end."""
        until_ns = min(until_ns, self._until_ns)
        while not self._stop.is_set():
            left = until_ns - time.monotonic_ns()
            if left <= 0:
                return until_ns < self._until_ns
            self._take(self._sockets.receive(min(left, _SLICE_NS)))
        return False

    def _take(self, replies: Iterable[Reply]) -> None:
        for reply in replies:
            place = self._latest.get(reply.number - self._base)
            if place is None or self._asked[place].rtt_ns is not None:
                continue
            one = self._asked[place]
            rtt = max(0, reply.received_ns - self.began_ns - one.sent_ns)
            self._asked[place] = Asked(one.ttl, one.sent_ns, rtt, reply.address)
