"""Which train comes next: the search for what limits a line, by as few bytes as it takes. Floor 2, pure.

1. search: trains at the highest rate allowed, longer each time, until one comes out slower than it went in.
2. long: at 1.8 times that rate, until one outlasts the bucket: half a second above the rate. Two short trains that agree prove nothing: behind a wider choke
   point the bucket of a narrower one may still be full.
3. again: trains just long enough for the bucket and the queue found, until three agree. One of them is only a little faster than the rate: a wider choke
   point ahead, in which the fast ones waited too, does not hold that one up. Where it shows another limit, only such slow ones count.
4. below: what looks like a policer must not drop at nine tenths of its rate; otherwise the loss has another cause than the rate.

Rates and bytes here are those the contract counts; a `Phase` has them at the IP layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from linkqual.model import Train
from linkqual.session.load_phase import Phase
from linkqual.session.train_result import HELD, HELD_UP, agreeing, alike, congested, is_gentle, lossy, policed, settled
from linkqual.stats.arrival_curve import Idle
from linkqual.units import NS_PER_S

SHORTEST = 400  # packets of a train
FEWEST = SHORTEST // 2  # bytes left for fewer are spent: they would show nothing
GROWTH = 4
ABOVE = 1.8  # times the rate: an even multiple would keep step with a policer, so that it drops every other packet
GENTLE, GENTLE_SHARE = 1.25, 0.7  # of the bytes left at most
BELOW = 0.9
OUTLAST_NS = NS_PER_S // 2
DEEP_BYTES = 4_000_000  # of a search train at least: at twice the rate half of it empties the deepest buckets in use
DEEPEST_NS = NS_PER_S // 4  # queues that are looked for
JITTER = 0.45  # of the gap: an even pace would keep step with a policer
LONG_NS = 7 * NS_PER_S // 5  # that a train takes at most for `outlast_bytes`
ENOUGH = 0.85  # of what `outlast_bytes` asks for, where the rate turned out another than planned with
TRAINS, MOST_TRAINS = 3, 6
SHORT = 1.2  # times as long a train would make it worth another
TRIES, LONG_TRIES = 6, 2  # trains that count for nothing, in all; before long ones are given up
PRESSED = 2.0
_REFILLED = 1.25  # times as long as the bucket found would take
_UNSEEN_BYTES = 1_000_000
_TAIL_NS = NS_PER_S // 20  # at least, behind bucket and queue
_IDLE_PACKETS, _IDLE_GAP_NS = 40, 3_000_000
_IDLE_SHARE = 8  # at most this part of the contract
_REST_NS = NS_PER_S // 10


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be sent. Rates as the contract counts them."""

    most_bytes: int  # of IP packets, in all
    fastest_bps: float = 1e10  # faster than a host sends single packets
    contracted_bps: float = 0.0  # 0: not known
    packet_bytes: int = 1500  # of an IP packet
    overhead_bytes: int = 38  # counted with each
    outlast_bytes: int = 0  # that one train shall carry above the rate, in LONG_NS at most; 0: those of OUTLAST_NS

    @property
    def each(self) -> int:
        """Bytes of a packet that the contract counts."""
        return self.packet_bytes + self.overhead_bytes


@dataclass(frozen=True, slots=True)
class Next:
    """What to do: be silent for so long, look at the idle line, send the train."""

    wait_ns: int
    idle: Phase
    train: Phase


@dataclass(slots=True)
class Trains:
    """The state of the search: `next` says what to send, `took` what came of it."""

    bounds: Bounds
    taken: list[Train] = field(default_factory=list)
    idle: Idle | None = None
    outlasted: bool = False
    ended: str = ""  # why no more come: "done", "none", "bytes", "void", "disagree", "short"
    time_ns: int | None = None  # that the next train may take
    _stage: str = "search"
    _rate: float = 0.0  # found so far
    _asked: float = 0.0  # of the search
    _packets: int = SHORTEST
    _too_fast: bool = False  # most of a search train was lost
    _spent: int = 0
    _tries: int = 0
    _paced: float = 0.0  # asked of the train under way
    _pressed: float = 1.0  # by which more is asked of a host that pauses
    _gentle: bool = False
    _stretch: float = 1.25  # of what a train must empty and fill

    def __post_init__(self) -> None:
        self._asked = self.bounds.fastest_bps

    @property
    def searching(self) -> bool:
        """Whether the rate is still to be found, or to be outlasted; afterwards trains only repeat it."""
        return not self.ended and self._stage in ("search", "long")

    @property
    def rate_bps(self) -> float:
        """Found so far; 0: none."""
        return self._rate

    @property
    def spent_bytes(self) -> int:
        """Of IP packets."""
        return self._spent

    def refute(self, rate_bps: float) -> None:
        """Something slower was seen by other means: the rate counts no more, trains have to outlast this one."""
        self._stage, self._rate, self._stretch = "long", rate_bps, GROWTH * self._stretch
        self.outlasted, self.ended = False, ""

    # ---- asking

    def next(self) -> Next | None:
        """The next train; None when all that can be known is known, or the bytes are spent."""
        if self.ended:
            return None
        asked, packets = self._planned()
        left = self._left()
        if left < FEWEST or (packets > left and (left < packets / 2 or self._stage != "long")):
            self.ended = "bytes"
            return None
        self._paced = asked
        share = self.bounds.packet_bytes / self.bounds.each
        sizes = ((self.bounds.packet_bytes, 1),)
        train = Phase(
            self._stage,
            round(asked * share),
            packets=min(packets, left),
            sizes=sizes,
            jitter=JITTER,
            arrivals=True,
        )
        return Next(self._wait_ns(), self._idle_phase(), train)

    def _left(self) -> int:
        """Packets of a train that may still be sent."""
        return (self.bounds.most_bytes - self._spent) // self.bounds.packet_bytes - _IDLE_PACKETS

    def _idle_phase(self) -> Phase:
        slow = 8 * self.bounds.packet_bytes * NS_PER_S // _IDLE_GAP_NS
        for known in (self.bounds.contracted_bps, self.bounds.fastest_bps, self._rate):
            slow = min(slow, round(known / _IDLE_SHARE) or slow)
        return Phase("idle", slow, packets=_IDLE_PACKETS, sizes=((self.bounds.packet_bytes, 1),), arrivals=True)

    def _planned(self) -> tuple[float, int]:
        """Rate and packets of the next train."""
        if self._stage == "search":
            return self._asked, self._packets
        if self._stage == "again":
            self._turn_gentle()
        if self._stage == "below":
            return BELOW * self._rate, self._checking()
        asked = self._above()
        enough = self._enough(asked)
        if self._stage == "long":
            left = (self.bounds.most_bytes - self._spent) / self.bounds.packet_bytes
            spared = left - (TRAINS - 1) * enough - TRAINS * _IDLE_PACKETS
            longest = self._outlasting(asked)
            if len(self._known()) < TRAINS - 1:  # perhaps of a wider choke point: look again before much is sent
                longest = min(longest, max(DEEP_BYTES, 2 * self.bounds.outlast_bytes) // self.bounds.each)
            if self.time_ns is not None:
                longest = min(
                    longest, int(max(0, self.time_ns - self._wait_ns()) * asked / 8 / NS_PER_S / self.bounds.each)
                )
            enough = max(enough, min(longest, int(spared)))
        return asked, max(SHORTEST, enough)

    def _above(self) -> float:
        fastest = max(train.offered_bps for train in self.taken)  # the host may not reach what is allowed
        return min((GENTLE if self._gentle else ABOVE) * self._pressed * self._rate, fastest, self.bounds.fastest_bps)

    def _turn_gentle(self) -> None:
        """The first train after the long one is slow where that is cheap; all are where it shows another limit than the fast ones."""
        good = self._good()
        if self._pressed > 1:
            self._gentle = False  # a host that pauses is not just above anything
        elif any(is_gentle(train) for train in good):
            self._gentle = len(alike(good, self.bounds.each)) < len(good)
        else:
            left = self.bounds.most_bytes - self._spent
            self._gentle = self._enough(GENTLE * self._rate) * self.bounds.packet_bytes < GENTLE_SHARE * left

    def _enough(self, asked: float) -> int:
        """Packets that empty the bucket, fill the queue and stay a while."""
        bucket = max((train.bucket_bytes or 0.0 for train in self._known()), default=0.0)
        seen = [train.buffer_ns for train in self._known() if train.buffer_ns is not None]
        risen = max((train.rise_ns or 0 for train in self._known()), default=0)
        queue_ns = max(seen) if seen else min(2 * risen, DEEPEST_NS)
        above = (asked - self._rate) / 8 / self._stretch  # bytes a second
        emptied, filled = bucket / above, queue_ns * self._rate / 8 / NS_PER_S / above  # seconds
        behind = max(_TAIL_NS / NS_PER_S, emptied * asked / self._rate / 2 - filled)  # a third of what arrives
        longer = 1 + 3 * (self._pressed - 1)  # pauses refill the bucket: more of the train must lie behind them
        return math.ceil((emptied + filled + behind) * longer * asked / 8 / self.bounds.each)

    def _checking(self) -> int:
        """Packets below the rate that show whether they are lost too."""
        return max(2 * SHORTEST, math.ceil(self._rate / 8 * _TAIL_NS / NS_PER_S / self.bounds.each))

    def _outlasting(self, asked: float) -> int:
        """Packets that show the rate for OUTLAST_NS: fewer are sent where a queue hands them on later."""
        dropping = any(train.buffer_ns is not None for train in self._known())
        bucket = max((train.bucket_bytes or 0.0 for train in self._known()), default=0.0)
        behind = 1.0 if self.bounds.outlast_bytes else 1.1 if dropping else 1.25 * self._rate / asked
        seconds = self._outlast_ns() / NS_PER_S * behind  # the queue hands on later, but how much is not known
        return math.ceil((bucket * asked / (asked - self._rate) + seconds * asked / 8) / self.bounds.each)

    def _outlast_ns(self) -> int:
        """For how long a train must be above the rate."""
        deep = round(self.bounds.outlast_bytes * 8 * NS_PER_S / self._rate)
        return max(OUTLAST_NS, min(deep, LONG_NS))

    def _wait_ns(self) -> int:
        """Until the bucket is full and the queue empty again."""
        if not self.taken or not self._rate:
            return _REST_NS if self.taken else 0
        bucket = _REFILLED * max((train.bucket_bytes or 0.0 for train in self.taken), default=0.0)
        if self.bounds.outlast_bytes:  # a bucket before another limit may have been emptied unseen
            bucket = max(bucket, min(self.taken[-1].packets * self.bounds.each, _UNSEEN_BYTES))
        return _REST_NS + round(bucket * 8 * NS_PER_S / self._rate)

    # ---- taking

    def took(self, train: Train, idle: Idle | None) -> None:
        """What came of the train asked for last."""
        self._spent += (train.packets + _IDLE_PACKETS) * self.bounds.packet_bytes
        self.idle, train = idle or self.idle, replace(train, asked_bps=self._paced)
        unclear = self._stage in ("long", "again") and (train.bucket_bytes is None or not congested(train, self.idle))
        if unclear and not train.void and train.offered_bps < HELD * self._paced:
            train = replace(train, void="the sending host did not keep the pace")
            self._pressed = min(PRESSED, self._paced / max(train.offered_bps, self._paced / PRESSED))
        self.taken.append(train)
        if self._stage == "search":
            self._searched(train)
        elif train.void:
            self._failed("void")
        elif self._stage == "below":
            self.ended = "done"
        elif unclear:
            self._stretch *= 1.5
            self._failed("short")
        else:
            self._judged(train)

    def _searched(self, train: Train) -> None:
        if train.void:
            if train.lost > train.packets / 2 and not train.host_lost:  # far too fast for what is there
                self._asked = max(min(self._asked, train.offered_bps or self._asked) / GROWTH, 1e6)
                self._too_fast = True
            elif train.host_lost:
                self._asked = max(train.offered_bps, 2e6) / 2
            self._failed("void")
        elif congested(train, self.idle) and train.bucket_bytes is not None:
            self._rate, self._stage = train.rate_bps or 0.0, "long"
        elif train.lost > train.packets / 2:
            self._asked = max(train.offered_bps / GROWTH, ABOVE * (train.rate_bps or 0.0))
            self._too_fast = True
            self._packets += SHORTEST
        elif congested(train, self.idle):
            self._packets *= 2
        elif self._too_fast:  # too slow now
            self._asked = min(2 * self._asked, self.bounds.fastest_bps)
            self._failed("short")
        else:
            most = self._longest(train)
            if self._packets >= most and lossy(train):
                self._failed("short")
            elif self._packets >= most:
                self.ended = "none"
            self._packets = min(self._packets * GROWTH, most)

    def _longest(self, train: Train) -> int:
        """Packets of a search train that meets nothing: half a second of the contract, or of what was offered; longer where deep buckets are to be seen."""
        lasts_ns = LONG_NS if self.bounds.outlast_bytes else OUTLAST_NS
        if self.time_ns is not None:
            lasts_ns = min(lasts_ns, self.time_ns)
        bits = max(DEEP_BYTES * 8, (self.bounds.contracted_bps or train.offered_bps) * lasts_ns / NS_PER_S)
        return min(math.ceil(bits / 8 / self.bounds.each), self._left())

    def _judged(self, train: Train) -> None:
        """A train above the rate found so far, which shows a rate and a bucket."""
        assert train.rate_bps is not None
        if self._stage == "again" and abs(train.rate_bps / self._rate - 1) > HELD_UP:
            self._stage, self.outlasted = "long", False
            self._failed("disagree")
        self._rate = train.rate_bps
        if train.steady_ns >= OUTLAST_NS:
            self.outlasted = True
        long_enough = train.steady_ns >= max(OUTLAST_NS, ENOUGH * self._outlast_ns())
        if self._stage == "long" and (long_enough or self._planned()[1] < SHORT * train.packets):
            self._stage = "again"
        good = alike(self._good(), self.bounds.each)
        if train.purpose == "again" and (settled(good, self.bounds.each, DEEPEST_NS) or len(good) >= MOST_TRAINS):
            if policed(good, self.bounds.each):
                self._stage = "below"
            else:
                self.ended = "done"

    def _failed(self, why: str) -> None:
        """A train that counts for nothing."""
        self._tries += 1
        if self._tries >= TRIES:
            self.ended = why
        elif self._stage == "long" and self._tries >= LONG_TRIES and why != "disagree":
            self._stage = "again"

    def _known(self) -> list[Train]:
        return agreeing(self.taken, self._rate)

    def _good(self) -> list[Train]:
        """What counts in the end."""
        return [train for train in self._known() if train.purpose in {"long", "again"}]
