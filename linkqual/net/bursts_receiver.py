"""The loop of a receiver of training bursts, in its process: confirms whole bursts, reports what is missing, counts first copies. Floor 3."""

from __future__ import annotations

import numpy as np

from linkqual.net import clock
from linkqual.net.bursts_ends import STRIDE, BurstConfig, Ear, Heard, Mouth, together
from linkqual.net.bursts_loop import Loop
from linkqual.net.clock import Alarm, monotonic_ns, utc_ns
from linkqual.net.process import CHUNK, Inbox, Json, Outbox
from linkqual.session.bursts_arriving import Arriving
from linkqual.wire.bursts import Complete, Hello, Ready

_KNOCKS, _KNOCK_NS = 200, 50_000_000
_TICK_NS = 20_000_000
_GATHER_NS = (
    500_000  # while packets come: more of them for the price of one call; what is held so is told with the answer
)


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: answer until the parent stops it or goes."""
    _Receiver(BurstConfig(**config), inbox, outbox).run()


class _Receiver(Loop):
    def __init__(self, config: BurstConfig, inbox: Inbox, outbox: Outbox) -> None:
        super().__init__(config, inbox, outbox)
        self._mouth = Mouth(self.ends, config, self.shape)
        self._ear = Ear(self.ends, config, self.shape)
        self._arriving = Arriving(self.shape)
        none = np.zeros(1, np.int64)
        Arriving(self.shape).add(none, none, none, 0)  # numpy loads parts of itself when first used: not during a burst
        self._dropped = self.ends.dropped()
        self._joined = min(together(self.shape), STRIDE)  # packets that one drop may stand for: the socket gets trains
        self._latest: dict[int, tuple[int, bytes | None]] = {}  # by burst: when its latest packet came, and from where
        self._alarm = Alarm()
        self._gather_ns = min(_GATHER_NS, self.shape.transfer_ns // 10, self.shape.quiet_ns // 2)
        self._knocks, self._knock_ns, self._heard_ns = 0, 0, 0

    def step(self) -> None:
        """Wait for packets, answer them, report what has stopped coming."""
        now = monotonic_ns()
        if not self.ends.far and not self._arriving.counters["received"]:
            self._knock(now)
        if self._listen(self.wait(min(self._arriving.next_ns() - now, _TICK_NS))):
            self._alarm.sleep_until(monotonic_ns() + self._gather_ns)
        now = monotonic_ns()
        if now < self._arriving.next_ns():
            return
        self._listen(self.wait(0))  # what waits here is not missing
        for report in self._arriving.due(now):
            self._mouth.say(report, name=self._latest[report.burst][1])

    def look(self) -> Json:
        """Counters; settled bursts go ahead of them."""
        return self._told(final=False)

    def final(self) -> Json:
        """See Loop: nothing more is waited for."""
        self._listen(self.wait(0))
        return self._told(final=True)

    def _told(self, *, final: bool) -> Json:
        rows = self._arriving.rows(final=final)
        if len(rows):
            self.outbox.put(CHUNK, rows.tobytes())
            oldest = int(rows["burst"].max())
            self._latest = {burst: latest for burst, latest in self._latest.items() if burst > oldest}
        counters = self._arriving.counters
        return counters | {
            "strangers": counters["strangers"] + self._ear.strangers,
            "dropped": max(self.ends.dropped() - self._dropped, 0) * self._joined,
            "silent_ns": monotonic_ns() - self._heard_ns if self._heard_ns else 0,
            "refusals": self._mouth.refusals,
            "cpu_ns": clock.cpu_ns(),
        }

    def _knock(self, now: int) -> None:
        """The way of every flow is opened and held open, through firewalls and address translation, until packets come."""
        if now - self._knock_ns >= _KNOCK_NS and self._knocks < _KNOCKS:
            for flow in range(self.shape.flows):
                self._mouth.say(Hello(self._knocks, True, flow), flow=flow)
            self._knocks, self._knock_ns = self._knocks + 1, now

    def _listen(self, ready: set[int]) -> bool:
        """Whether data came."""
        data = False
        for heard in self._ear.listen(ready) if ready else ():
            self._heard_ns = monotonic_ns()
            if isinstance(heard, Heard):
                self._take(heard)
                data = True
                continue
            reply, at_ns, name = heard
            if isinstance(reply, Hello) and not reply.knock:
                self._mouth.say(Ready(reply.number, max(monotonic_ns() - at_ns, 0)), name=name)
        return data

    def _take(self, heard: Heard) -> None:
        for at in np.flatnonzero(np.diff(heard.bursts, append=-1)):  # the last of each run of one burst
            burst, name = int(heard.bursts[at]), heard.names[at] if heard.names else None
            stamp, _ = self._latest.get(burst, (0, None))
            self._latest[burst] = max(stamp, int(heard.stamps[heard.bursts == burst].max())), name
        for burst in self._arriving.add(heard.bursts, heard.indices, heard.copies, monotonic_ns()):
            stamp, name = self._latest[burst]
            self._mouth.say(Complete(burst, max(utc_ns() - stamp, 0)), name=name)
