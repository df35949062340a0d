"""What both processes of training bursts share: sockets, waiting, and the parent's words. Floor 3.

{"do": "start"}   begin (the sender)
{"do": "look"}    CHUNK frames of what was settled since, then ANSWER with how far it is
{"do": "stop"}    the same, all of it, then REPORT; the process ends
"""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from dataclasses import replace

from linkqual.net import clock
from linkqual.net.bursts_ends import BurstConfig
from linkqual.net.process import ANSWER, READY, REPORT, Inbox, Json, Outbox
from linkqual.session.bursts import Shape
from linkqual.units import NS_PER_S


class Loop(ABC):
    """One end of one direction, in its own process."""

    def __init__(self, config: BurstConfig, inbox: Inbox, outbox: Outbox) -> None:
        self.config, self.inbox, self.outbox = config, inbox, outbox
        self.shape = Shape(**config.shape)
        self.ends = config.opened()
        self.told_to_start = False
        self._descriptors = [each.descriptor for each in self.ends.sockets] + [inbox.descriptor]

    def run(self) -> None:
        """Until told to stop, or the parent is gone."""
        clock.sharpen_timers()
        clock.go_on_time(NS_PER_S / self.shape.gap_ns)
        ports = [each.port for each in self.ends.sockets]
        buffer = min(each.receive_buffer_bytes for each in self.ends.sockets)
        self.outbox.put_json(READY, {"ports": ports, "receive_buffer_bytes": buffer})
        try:
            while not self.inbox.ended and self._obey():
                self.step()
                self.outbox.flush()
        finally:
            self.ends.close()

    @abstractmethod
    def step(self) -> None:
        """One round: what is due, what is heard. Waits a little when there is nothing."""

    @abstractmethod
    def look(self) -> Json:
        """How far it is; what was settled is put out as CHUNK frames before."""

    def final(self) -> Json:
        """The last look."""
        return self.look()

    def wait(self, ns: float) -> set[int]:
        """Until something is there to be read, at most so long; the descriptors where it is."""
        return set(select.select(self._descriptors, [], [], max(ns, 0) / NS_PER_S)[0])

    def _obey(self) -> bool:
        for message in self.inbox.take():
            match message:
                case {"do": "start", "period_ns": int(period_ns)}:
                    self.told_to_start = True
                    self.shape = replace(self.shape, period_ns=period_ns)
                case {"do": "look"}:
                    self.outbox.put_json(ANSWER, self.look())
                case {"do": "stop"}:
                    self.outbox.put_json(REPORT, self.final())
                    return False
        return True
