"""The loop of a sender of training bursts, in its process: greets, waits for the word to start, then sends burst after burst. Floor 3.

A confirmation counts from the kernel's arrival stamp, so neither end's wake-up is part of what a burst took.
"""

from __future__ import annotations

import numpy as np

from linkqual.net import clock
from linkqual.net.bursts_ends import ROWS, STRIDE, BurstConfig, Ear, Heard, Mouth, together
from linkqual.net.bursts_loop import Loop
from linkqual.net.clock import monotonic_ns
from linkqual.net.process import CHUNK, Inbox, Json, Outbox
from linkqual.session.bursts_sending import Sending
from linkqual.units import NS_PER_S
from linkqual.wire.bursts import Complete, Hello, Missing, Ready

_GREETINGS, _GREET_NS = 20, 20_000_000
_ENOUGH = 10  # answers to hellos, for the smallest round trip
_GREETED_NS = NS_PER_S  # after so long a single answer will do
_SILENCE_NS = 5 * NS_PER_S  # a receiver of which nothing is heard any more is sent nothing more
_TICK_NS = 20_000_000


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: send until every burst is settled, the parent stops it or goes."""
    _Sender(BurstConfig(**config), inbox, outbox).run()


class _Sender(Loop):
    def __init__(self, config: BurstConfig, inbox: Inbox, outbox: Outbox) -> None:
        super().__init__(config, inbox, outbox)
        self._together = together(self.shape)
        self._mouth = Mouth(self.ends, config, self.shape, min(self._together, STRIDE))
        self._ear = Ear(self.ends, config, self.shape)
        self._sending: Sending | None = None
        Sending(self.shape, 0, 0).departures(0, 1)  # the first call of all is slow: not during a burst
        self._hellos: list[int] = []  # when each left
        self._answers: list[int] = []  # round trips
        self._begun_ns = self._heard_ns = monotonic_ns()
        self._packets = 0

    @property
    def base_rtt_ns(self) -> int | None:
        """Smallest round trip of the hellos; None: not known yet."""
        waited = monotonic_ns() - self._begun_ns > _GREETED_NS
        return min(self._answers) if len(self._answers) >= (1 if waited else _ENOUGH) else None

    def step(self) -> None:
        """Send what is due, then wait for an answer or the next departure."""
        now = monotonic_ns()
        if self._sending is None and self.told_to_start and self.base_rtt_ns is not None:
            self._heard_ns = now
            self._sending = Sending(self.shape, self.base_rtt_ns, now)
        if self._sending is None:
            self._greet(now)
            heard = self.wait(_TICK_NS // 4 if self._answers or not self._hellos else _TICK_NS)
        else:
            taken = None
            if not self._halted:
                taken = self._sending.departures(now, min(ROWS, self.config.max_packets - self._packets))
            if taken is not None:
                self._packets += self._mouth.send(taken)
                self._sending.sent(taken, monotonic_ns())
            heard = self.wait(min(self._sending.next_ns(self._together) - monotonic_ns(), _TICK_NS))
        self._listen(heard)

    def look(self) -> Json:
        """How far it is; settled bursts go ahead of it."""
        sending = self._sending
        if sending is not None:
            rows = sending.rows()
            if len(rows):
                self.outbox.put(CHUNK, rows.tobytes())
        return {
            "base_rtt_ns": self.base_rtt_ns,
            "started": sending.started if sending is not None else 0,
            "done": self._over,
            "packets": self._packets,
            "repeats_left": sending.repeats_left if sending is not None else self.shape.most_repeats,
            "capped": self._packets >= self.config.max_packets,
            "silent_ns": monotonic_ns() - self._heard_ns,
            "strangers": self._ear.strangers,
            "refusals": self._mouth.refusals,
            "cpu_ns": clock.cpu_ns(),
        }

    @property
    def _over(self) -> bool:
        return self._sending is not None and (self._sending.done or self._halted)

    @property
    def _halted(self) -> bool:
        """Whether nothing more may leave: a cap, or nobody hears it."""
        silence_ns = _SILENCE_NS + self.shape.transfer_ns + self.shape.period_ns
        return self._packets >= self.config.max_packets or monotonic_ns() - self._heard_ns > silence_ns

    def _greet(self, now: int) -> None:
        due = not self._hellos or now - self._hellos[-1] >= _GREET_NS
        if self.ends.ready and due and (len(self._answers) < _ENOUGH or len(self._hellos) < _GREETINGS):
            self._mouth.say(Hello(len(self._hellos)), flow=len(self._hellos) % self.shape.flows)
            self._hellos.append(now)

    def _listen(self, ready: set[int]) -> None:
        for heard in self._ear.listen(ready) if ready else ():
            if isinstance(heard, Heard):
                continue
            reply, at_ns, name = heard
            self._heard_ns = monotonic_ns()
            match reply:
                case Hello(_, True, flow):
                    self.ends.learn(flow, np.frombuffer(name, np.uint8))
                case Ready(number, hold_ns) if number < len(self._hellos):
                    self._answers.append(max(at_ns - self._hellos[number] - hold_ns, 0))
                case Complete() if self._sending is not None:
                    self._sending.complete(reply, at_ns)
                case Missing() if self._sending is not None:
                    self._sending.missing(reply, at_ns)
                case _:
                    pass
