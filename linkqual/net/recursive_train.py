"""Sends one recursive train and hears what the hops say of it. Floor 3."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from linkqual.net.trace_sockets import TraceSockets
from linkqual.session.recursive_train import LISTEN_NS, PACKET_BYTES, Heard, numbers
from linkqual.units import NS_PER_S
from linkqual.wire import trace_probe

_SLICE_NS = 50_000_000
_AWAKE_NS = 500_000  # before a packet is due: a sleep may take so much longer
_HEADERS = {4: 28, 6: 48}
_HOPS = 64


def send(
    sockets: TraceSockets,
    ttls: Sequence[int],
    load: int,
    gap_ns: int = 0,
    interrupted: Callable[[], bool] = lambda: False,
) -> Heard | None:
    """`load` packets all the way between two rows that expire at `ttls`; `gap_ns`: between two packets, 0: as fast as they go.

    None when it was interrupted. Raises OSError when this host refuses to send.
    """
    given = numbers(ttls)
    place = {number: (ttl, at) for ttl, both in given.items() for at, number in enumerate(both)}
    octets = bytes(PACKET_BYTES - _HEADERS[6 if ":" in sockets.destination else 4])
    sent: dict[int, list[int]] = {ttl: [0, 0] for ttl in ttls}
    came: dict[int, list[int | None]] = {ttl: [None, None] for ttl in ttls}
    for _ in sockets.receive(0):
        pass  # late answers of the train before
    due = time.monotonic_ns()
    rows: list[tuple[int, int]] = [(ttl, 0) for ttl in ttls]
    train = [*rows, *[None] * load, *[(ttl, 1) for ttl in reversed(ttls)]]
    for item in train:
        if interrupted():
            return None
        while (left := due - time.monotonic_ns()) > 0:
            time.sleep(max(0, min(left, _SLICE_NS) - _AWAKE_NS) / NS_PER_S)
        due += gap_ns
        if item is None:
            sockets.send_octets(octets, _HOPS)
        else:
            ttl, at = item
            sent[ttl][at] = time.monotonic_ns()
            sockets.send_octets(trace_probe.encode(given[ttl][at]), ttl)
    until = time.monotonic_ns() + LISTEN_NS
    while (left := until - time.monotonic_ns()) > 0:
        for reply in sockets.receive(min(left, _SLICE_NS)):
            with contextlib.suppress(KeyError):
                ttl, at = place[reply.number]
                if came[ttl][at] is None:
                    came[ttl][at] = reply.received_ns
    return Heard(
        load,
        {ttl: (first, last) for ttl, (first, last) in sent.items()},
        {ttl: (first, last) for ttl, (first, last) in came.items()},
    )
