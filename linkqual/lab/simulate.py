"""The same line in memory under a fake clock: the records a measurement would give, millions of packets in seconds. Floor 3, pure.

Packets flow in batches: the sender's schedule, the links of the forward path, the far end, the links of the reverse path. Each
stage hands on what can no longer be overtaken by a packet yet to come (everything before the batch's own time, since no link
gives time back) and keeps the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence, default_rng

from linkqual.bottleneck import member_of
from linkqual.errors import UsageError
from linkqual.impair import Bottleneck, Flags, Impairer, Impairment, Ints
from linkqual.lab.description import DIRECTIONS, Line
from linkqual.model import Direction
from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records
from linkqual.units import NS_PER_S

_BATCH = 1 << 16
_TTL = 255  # RFC 8762: a Session-Sender sends with TTL 255
_END = 2**62
_COUNTERS = ("dropped", "duplicated", "reordered", "over_rate")


@dataclass(frozen=True, slots=True)
class Flow:
    """Packets in the order they are somewhere: when, and whose; from the far end on also the answer's number and T2."""

    times: Ints
    seqs: Ints
    far_seqs: Ints
    far_times: Ints

    @classmethod
    def sent(cls, times: Ints, seqs: Ints) -> Flow:
        """Packets that have not met the far end yet."""
        return cls(times, seqs, np.full(len(times), ABSENT), np.full(len(times), ABSENT))

    def part(self, which: Flags | Ints | slice) -> Flow:
        """The packets chosen by a mask, by indices or by a slice."""
        return Flow(self.times[which], self.seqs[which], self.far_seqs[which], self.far_times[which])

    def at(self, times: Ints) -> Flow:
        """The same packets at other instants."""
        return Flow(times, self.seqs, self.far_seqs, self.far_times)

    def then(self, other: Flow) -> Flow:
        """These packets and the others behind them."""
        return Flow(
            np.concatenate((self.times, other.times)),
            np.concatenate((self.seqs, other.seqs)),
            np.concatenate((self.far_seqs, other.far_seqs)),
            np.concatenate((self.far_times, other.far_times)),
        )


_NOTHING = Flow.sent(np.zeros(0, np.int64), np.zeros(0, np.int64))


class _Hop:
    """One direction of one link."""

    def __init__(self, impairment: Impairment, seed: SeedSequence, ip_bytes: int) -> None:
        self._bottleneck = Bottleneck(impairment.rate) if impairment.rate else None
        self._impairer = Impairer(impairment, seed)
        self._bytes = ip_bytes
        self._hash = int(default_rng(seed).integers(2**32))  # a stream is one flow
        self._kept = _NOTHING
        self._numbers = np.zeros(0, np.int64)  # of the kept ones, in the order they arrived here
        self._arrived, self._newest = 0, -1
        self.reordered = 0

    def push(self, flow: Flow, until: int) -> Flow:
        """Packets arriving here, in order, all before `until`. Returns those that leave before `until`, in order."""
        over = np.zeros(len(flow.times), bool)
        if self._bottleneck:
            count = len(flow.times)
            times, over = self._bottleneck.through(flow.times, np.full(count, self._bytes), np.full(count, self._hash))
            flow = flow.at(times).part(~over)
        members = np.full(
            len(flow.times), member_of(self._hash, self._bottleneck.rate.members if self._bottleneck else 1)
        )
        passage = self._impairer.through(flow.times, members)
        numbers = np.arange(self._arrived, self._arrived + len(flow.times))
        self._arrived += len(flow.times)
        copies = np.repeat(np.arange(len(flow.times)), np.where(passage.lost, 0, 1 + passage.copied))
        waiting = self._kept.then(flow.at(passage.due_ns).part(copies))
        numbers = np.concatenate((self._numbers, numbers[copies]))
        order = np.argsort(waiting.times, kind="stable")
        waiting, numbers = waiting.part(order), numbers[order]
        cut = int(np.searchsorted(waiting.times, until))
        self._count_reordered(numbers[:cut])
        self._kept, self._numbers = waiting.part(slice(cut, None)), numbers[cut:]
        return waiting.part(slice(cut))

    def _count_reordered(self, numbers: Ints) -> None:
        """RFC 4737 section 3.3: a packet is reordered when one that was sent later came earlier."""
        if len(numbers):
            newest = np.maximum.accumulate(np.concatenate(([self._newest], numbers)))
            self.reordered += int((numbers < newest[:-1]).sum())
            self._newest = int(newest[-1])

    @property
    def counts(self) -> dict[str, int]:
        return {
            "dropped": self._impairer.dropped,
            "duplicated": self._impairer.duplicated,
            "reordered": self.reordered,
            "over_rate": self._bottleneck.dropped if self._bottleneck else 0,
        }


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is sent and how both ends behave. Times in ns; `packet_bytes` is the UDP payload."""

    packets: int
    rate_pps: float
    packet_bytes: int = 100
    start_ns: int = 1_767_225_600 * NS_PER_S  # 2026-01-01: a fake clock has a fixed morning
    timeout_ns: int = 2 * NS_PER_S
    clock_offset_ns: int = 0  # far clock minus near clock
    residence_ns: int = 5_000  # T3 - T2
    ip_version: int = 4


class Simulation:
    """One seeded stream of STAMP packets over a line. Iterate once over the chunks of records; `truth` says what the line did."""

    def __init__(self, line: Line, schedule: Schedule, seed: int) -> None:
        self.line, self.schedule = line, schedule
        ip_bytes = schedule.packet_bytes + (28 if schedule.ip_version == 4 else 48)
        _check(line, schedule, ip_bytes)
        ways = {way: line.impairments(way) for way in DIRECTIONS}
        seeds = iter(SeedSequence(seed).spawn(sum(len(hops) for hops in ways.values())))
        self._hops: dict[Direction, list[_Hop]] = {}
        for way, impairments in ways.items():
            drawn = [(what, next(seeds)) for what in impairments]
            self._hops[way] = [_Hop(what, its, ip_bytes) for what, its in drawn if what.pumped or what.rate]
        self._rows = empty_records(0)  # not yet settled
        self._far_seq = self._arrivals = 0

    @property
    def truth(self) -> dict[str, Any]:
        """By direction: dropped, duplicated, reordered, over_rate; complete when the iteration has ended."""
        found: dict[str, Any] = {"line": self.line.name}
        for way, hops in self._hops.items():
            counts = [hop.counts for hop in hops]
            found[str(way)] = {key: sum(count[key] for count in counts) for key in _COUNTERS}
        return found

    def __iter__(self) -> Iterator[Records]:
        """Settled rows in sequence order: each packet once, when its reply is there and later copies can't be, or it timed out."""
        for first in range(0, self.schedule.packets, _BATCH):
            last = min(first + _BATCH, self.schedule.packets)
            until = self._instant(last) if last < self.schedule.packets else _END
            self._send(first, last)
            new = self._rows[first - last :]
            self._carry(Flow.sent(new["sent_ns"].copy(), new["seq"].copy()), until)
            settled = int(np.searchsorted(self._rows["sent_ns"], until - self.schedule.timeout_ns))
            if settled:
                yield self._settle(settled)

    def _instant(self, seq: int) -> int:
        return self.schedule.start_ns + int(seq * NS_PER_S / self.schedule.rate_pps)

    def _send(self, first: int, last: int) -> None:
        rows = empty_records(last - first, first)
        rows["intended_ns"] = rows["sent_ns"] = self.schedule.start_ns + (
            rows["seq"] * (NS_PER_S / self.schedule.rate_pps)
        ).astype(np.int64)
        rows["packet_bytes"] = self.schedule.packet_bytes
        rows["fate"] = Fate.LOST_FORWARD
        rows["stamps"] = Stamp.T1_KERNEL
        self._rows = np.concatenate((self._rows, rows))

    def _carry(self, flow: Flow, until: int) -> None:
        for hop in self._hops[Direction.FORWARD]:
            flow = hop.push(flow, until)
        flow = self._far_end(flow)
        for hop in self._hops[Direction.REVERSE]:
            flow = hop.push(flow, until)
        self._near_end(flow)

    def _waited_for(self, flow: Flow) -> Flow:
        """The packets whose row is not settled yet."""
        base = int(self._rows["seq"][0]) if len(self._rows) else 0
        return flow.part(flow.seqs >= base)

    def _row_of(self, flow: Flow) -> Ints:
        return flow.seqs - int(self._rows["seq"][0]) if len(flow.seqs) else flow.seqs

    def _far_end(self, flow: Flow) -> Flow:
        """A stateful reflector (RFC 8762 section 4): it answers every packet, copies too, and numbers its answers."""
        numbers = np.arange(self._far_seq, self._far_seq + len(flow.times), dtype=np.int64)
        self._far_seq += len(numbers)
        index = self._row_of(self._waited_for(flow))
        fates = self._rows["fate"]
        fates[index] = np.where(fates[index] == Fate.LOST_FORWARD, Fate.LOST_REVERSE, fates[index])
        return Flow(flow.times + self.schedule.residence_ns, flow.seqs, numbers, flow.times)

    def _near_end(self, flow: Flow) -> None:
        rows = self._rows
        flow = self._waited_for(flow)
        flow = flow.part(flow.times <= rows["sent_ns"][self._row_of(flow)] + self.schedule.timeout_ns)
        index = self._row_of(flow)
        answered = rows["fate"][index] == Fate.RECEIVED
        fresh = np.zeros(len(index), bool)
        fresh[np.unique(index, return_index=True)[1]] = True
        fresh &= ~answered
        at, first = index[fresh], flow.part(fresh)
        rows["fate"][at] = Fate.RECEIVED
        rows["far_received_ns"][at] = first.far_times + self.schedule.clock_offset_ns
        rows["far_sent_ns"][at] = rows["far_received_ns"][at] + self.schedule.residence_ns
        rows["received_ns"][at] = first.times
        rows["far_seq"][at] = first.far_seqs
        rows["arrival"][at] = np.arange(self._arrivals, self._arrivals + len(at))
        self._arrivals += len(at)
        rows["stamps"][at] = Stamp.ALL_KERNEL
        rows["forward_ttl"][at] = _TTL - (len(self.line.forward) - 2)
        rows["reverse_ttl"][at] = _TTL - (len(self.line.reverse) - 2)
        again = flow.part(~fresh)
        same = again.far_seqs == rows["far_seq"][index[~fresh]]
        np.add.at(rows["reverse_copies"], index[~fresh][same], 1)
        np.add.at(rows["forward_copies"], index[~fresh][~same], 1)

    def _settle(self, count: int) -> Records:
        done, self._rows = self._rows[:count], self._rows[count:].copy()
        return done


def simulate(line: Line, packets: int, rate_pps: float, seed: int, packet_bytes: int = 100, **more: int) -> Simulation:
    """Send `packets` over `line` in memory; `more` as in `Schedule`. Iterate over the result for its records, then ask its truth."""
    return Simulation(line, Schedule(packets, rate_pps, packet_bytes, **more), seed)


def _check(line: Line, schedule: Schedule, ip_bytes: int) -> None:
    if schedule.packets < 1 or not schedule.rate_pps > 0:
        raise UsageError(
            f"{schedule.packets} packets at {schedule.rate_pps:g} a second cannot be sent",
            "at least one packet, more than 0 a second",
        )
    for way in DIRECTIONS:
        if ip_bytes > line.mtu(way):
            raise UsageError(
                f"packets of {ip_bytes} bytes do not fit through {line.name!r} {way} (MTU {line.mtu(way)})",
                "send smaller packets",
            )
