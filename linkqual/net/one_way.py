"""A running one-way session of two of our ends, as records: `for records in one_way(sender, reflector, timeout_ns)`. Floor 3.

The sender was started with `one_way=True`, the reflector with `answering=False`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from linkqual.net.clock import monotonic_ns
from linkqual.net.reflector import Reflector
from linkqual.net.sender import Sender
from linkqual.records import Records
from linkqual.session.one_way import OneWay

_POLL_S = 0.02


def one_way(sender: Sender, reflector: Reflector, timeout_ns: int, first_seq: int = 0) -> Iterator[Records]:
    """Rows in sequence order, every packet sent exactly once, those that did not arrive within `timeout_ns` as LOST_FORWARD.

    Raises HostError when the reflector's process died; a sender that died ends the stream, and `sender.report()` tells.
    """
    join = OneWay(timeout_ns, first_seq)
    for records in sender.chunks():
        join.sent(records, monotonic_ns())
        yield _settled(join, reflector)
    last_ns = monotonic_ns()
    while True:
        rows = _settled(join, reflector)
        if len(rows):
            yield rows
        if join.complete or monotonic_ns() > last_ns + timeout_ns:
            break
        time.sleep(_POLL_S)
    for rows in reflector.rows():
        join.arrived(rows)
    yield join.close()


def _settled(join: OneWay, reflector: Reflector) -> Records:
    now = monotonic_ns()  # before the far end is asked: what came until now is in its answer
    for rows in reflector.rows():
        join.arrived(rows)
    return join.settle(now)
