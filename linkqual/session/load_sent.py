"""What left in one phase of load, counted as the kernel took it. Floor 2, pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from linkqual.session.load_count import Bins
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S
from linkqual.wire.load import Told, phase_octet

NONE = "none"  # ended_by before the first phase


class Sent:
    """Without a phase: nothing was asked for yet."""

    def __init__(self, number: int = 0, phase: Phase | None = None) -> None:
        self._octet = phase_octet(number) if phase is not None else 0
        self.flows = phase.flows if phase is not None else 1
        self.sent = self.sent_bytes = 0
        self.turn = 0  # shares handed over, flow after flow
        self.train = 1
        self.ended_by = "" if phase is not None else NONE
        self.refusals: dict[str, int] = {}
        self.cpu_ns = self.wall_ns = 0
        self.heard_ns = 0  # monotonic, of the peer's last word about this phase
        self.told: Told | None = None
        self.moved_ns = 0  # monotonic, when the receiver last told of progress
        self._reached = 0  # packets below are in flight no more
        self._first_ns = self._last_ns = 0
        self._by_flow = [0] * self.flows
        self._interval_ns = phase.interval_ns if phase is not None else NS_PER_S
        self._departed = Bins(self._interval_ns)
        self._now = [0, 0, 0]  # the interval that runs: its begin, packets, bytes

    def left(self, flow: int, count: int, octets: int, utc_ns: int) -> None:
        """The kernel took these packets of one flow."""
        if not self.sent:
            self._first_ns = utc_ns
        self._last_ns = utc_ns
        self.sent += count
        self.sent_bytes += octets
        self._by_flow[flow] += count
        now = self._now
        if not 0 <= utc_ns - now[0] < self._interval_ns:
            self._settle()
            self._now = now = [utc_ns - utc_ns % self._interval_ns, 0, 0]
        now[1] += count
        now[2] += octets

    def _settle(self) -> None:
        begin, count, octets = self._now
        if count:
            self._departed.add(np.array((begin,)), np.array((count,)), np.array((octets,)))
        self._now = [begin, 0, 0]

    def hear(self, told: Told, now_ns: int) -> None:
        """A word of the receiver; of another phase it is nothing."""
        if told.phase and told.phase == self._octet:
            self.heard_ns = now_ns
            if self.told is None or told.count > self.told.count:
                self.told = told
            if told.next_seq > self._reached:
                self._reached, self.moved_ns = min(told.next_seq, self.sent), now_ns

    @property
    def in_flight(self) -> int:
        """Packets of which nothing is known yet."""
        return self.sent - self._reached

    def forgive(self, now_ns: int) -> None:
        """What is in flight counts no longer: it was lost, or the words about it were."""
        self._reached, self.moved_ns = self.sent, now_ns

    def refused(self, name: str) -> None:
        """The host refused, or ICMP complained."""
        self.refusals[name] = self.refusals.get(name, 0) + 1

    def small(self, now_ns: int) -> dict[str, Any]:
        """What is told while it runs; `told`: the receiver's last word."""
        told = self.told
        return {
            "sent": self.sent,
            "sent_bytes": self.sent_bytes,
            "ended_by": self.ended_by,
            "silent_ns": now_ns - self.heard_ns if self.heard_ns else 0,
            "told": None
            if told is None
            else {
                "received": told.received,
                "received_bytes": told.received_bytes,
                "next_seq": told.next_seq,
                "dropped": told.dropped,
                "received_ns": told.span_ns,
            },
        }

    def data(self, now_ns: int) -> dict[str, Any]:
        """All of it."""
        self._settle()
        return self.small(now_ns) | {
            "sent_ns": self._last_ns - self._first_ns,
            "last_sent_ns": self._last_ns,
            "by_flow": self._by_flow,
            "departed": self._departed.data(),
            "train": self.train,
            "refusals": self.refusals,
            "cpu_ns": self.cpu_ns,
            "wall_ns": self.wall_ns,
        }
