"""The sender under audit: when packets really left (kernel T1) against when the schedule wanted them out, and in what bursts.

A packet follows the one ahead of it when it had been due, before that one left, for at least as long as the gap between the two:
the sender was catching up, with or without pauses. A run of such packets is a burst if it left at more than twice the rate of the
schedule. So bursts are measured against the intended schedule: packets that a Poisson schedule wanted close together are none
when they keep their places, and a sender that is late but evenly so makes none. Losses in bursts longer than the sender makes by
design may be its own doing.
Law: merge(pacing of the first part, pacing of the rest) == pacing of the whole, wherever the cut. Floor 1, pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.model import Burst, Pacing
from linkqual.records import ABSENT, Fate, Records
from linkqual.stats import histogram
from linkqual.units import NS_PER_S

FASTER = 2  # than the schedule, on the mean of the run: a burst
DESIGNED = 64  # packets of one call: what the sender hands over at once by design
DESIGNED_NS = 5_000_000  # of the rate; a queue on the line is given as long to drain (rules.proportion)
_FATES = ((Fate.LOST_FORWARD, "lost_forward"), (Fate.LOST_REVERSE, "lost_reverse"), (Fate.LOST, "lost"))
_LOST = tuple(name for _, name in _FATES)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def longest_designed(rate_pps: float) -> int:
    """Packets back to back that are still no fault of the sender: one call's, or 5 ms of the rate if that is more."""
    return max(DESIGNED, math.ceil(rate_pps * DESIGNED_NS / NS_PER_S))


class Audit:
    """Takes the packets of one stream in order of sequence number."""

    def __init__(self, rate_pps: float = 0, most: int = 0) -> None:
        """`rate_pps` of the schedule, 0: none, nothing is audited. `most`: see `model.Pacing`, 0: `longest_designed`."""
        interval = NS_PER_S / rate_pps if rate_pps else 0.0
        self._state = Pacing(interval, most or longest_designed(rate_pps)) if rate_pps else Pacing()
        self._late, self._gaps = histogram.LogLinear(), histogram.LogLinear()

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Audit:
        """As the parameters of a stamp step (`plan.steps`) ask for it."""
        return cls(params.get("rate_pps") or 0, params.get("max_burst") or 0)

    def add(self, sent: Records) -> None:
        """Take rows that were sent; those without T1 are left out."""
        rows = sent[sent["sent_ns"] != ABSENT]
        if not self._state.interval_ns or not rows.size:
            return
        left, wanted = rows["sent_ns"], rows["intended_ns"]
        self._late.add(left - wanted)
        self._gaps.add(np.diff(left))
        if self._state.bursts:
            self._gaps.add([int(left[0]) - self._state.last.end_ns])
        self._state = _merged(self._state, _bursts(rows, self._state.interval_ns, self._state.most))

    def data(self) -> Pacing:
        """What was found so far."""
        return replace(self._state, late=self._late.data(), gaps=self._gaps.data())


def _bursts(rows: Records, interval_ns: float, most: int) -> Pacing:
    """The bursts of a chunk, without its histograms."""
    left, wanted = rows["sent_ns"], rows["intended_ns"]
    follows = _follows(left[:-1], left[1:], wanted[1:])
    begins = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    sizes = np.diff(np.concatenate((begins, [rows.size])))

    def burst(at: int) -> Burst:
        first, stop = int(begins[at]), int(begins[at] + sizes[at])
        return Burst(stop - first, int(left[first]), int(left[stop - 1]), *_lost(rows["fate"][first:stop]))

    spans = left[begins + sizes - 1] - left[begins]
    fast = _fast(sizes, spans, interval_ns)
    beyond = fast & (sizes > most)
    inner = np.where(fast, sizes, 0)[1:-1]
    counts: dict[str, Any] = dict(zip(_LOST, _lost(rows["fate"][np.repeat(beyond, sizes)]), strict=True))
    return Pacing(
        interval_ns,
        most,
        bursts=len(sizes),
        longest=burst(int(np.argmax(inner)) + 1) if inner.any() else Burst(),
        beyond=int(beyond.sum()),
        **counts,
        first=burst(0),
        last=burst(len(sizes) - 1),
        first_intended_ns=int(wanted[0]),
    )


def _follows(before: Any, left: Any, wanted: Any) -> Any:
    """Whether what was due at `wanted` and left at `left` follows what left at `before`; scalars or columns."""
    return left - before <= before - wanted


def _fast(packets: Any, span_ns: Any, interval_ns: float) -> Any:
    """Whether a run of that many packets in that time is a burst; scalars or columns."""
    return span_ns * FASTER < packets * interval_ns


def longest(pacing: Pacing) -> Burst:
    """The longest burst of all, those at the two ends too; empty when nothing was audited."""
    ends = [one for one in (pacing.first, pacing.last) if _is_burst(one, pacing)]
    return max([*ends, pacing.longest], key=lambda one: (one.packets, -one.start_ns))


def _is_burst(one: Burst, pacing: Pacing) -> bool:
    return bool(_fast(one.packets, one.end_ns - one.start_ns, pacing.interval_ns))


def _lost(fate: npt.NDArray[np.uint8]) -> list[int]:
    counts = np.bincount(fate, minlength=len(Fate))
    return [int(counts[kind]) for kind, _ in _FATES]


def merge(a: Pacing, b: Pacing) -> Pacing:
    """The audit of both streams, the second sent after the first."""
    if not a.bursts or not b.bursts:
        return a if a.bursts or not b.interval_ns else b
    gaps = histogram.LogLinear()
    gaps.add([b.first.start_ns - a.last.end_ns])
    across = histogram.merge(gaps.data(), b.gaps)
    return replace(_merged(a, b), late=histogram.merge(a.late, b.late), gaps=histogram.merge(a.gaps, across))


def _merged(a: Pacing, b: Pacing) -> Pacing:
    """Without the histograms."""
    if not a.bursts:
        return b
    assert b.first_intended_ns is not None
    cut, whole = [a.last, b.first], [a.last, b.first]
    first, last = a.first, b.last
    inner = [one for one, part in zip(cut, (a, b), strict=True) if part.bursts > 1]
    if _follows(a.last.end_ns, b.first.start_ns, b.first_intended_ns):
        bridge = _joined(a.last, b.first)
        whole = [bridge]
        first = bridge if a.bursts == 1 else first
        last = bridge if b.bursts == 1 else last
        inner = [bridge] if a.bursts > 1 and b.bursts > 1 else []
    longest_ones = [a.longest, *(one for one in inner if _is_burst(one, a)), b.longest]
    counts: dict[str, Any] = {
        name: getattr(a, name)
        + getattr(b, name)
        + sum(getattr(one, name) for one in _beyond(whole, a))
        - sum(getattr(one, name) for one in _beyond(cut, a))
        for name in _LOST
    }
    return Pacing(
        a.interval_ns,
        a.most,
        bursts=a.bursts + b.bursts + len(whole) - 2,
        longest=max(longest_ones, key=lambda one: one.packets),
        beyond=a.beyond + b.beyond + len(_beyond(whole, a)) - len(_beyond(cut, a)),
        **counts,
        first=first,
        last=last,
        first_intended_ns=a.first_intended_ns,
    )


def _beyond(runs: list[Burst], pacing: Pacing) -> list[Burst]:
    return [one for one in runs if one.packets > pacing.most and _is_burst(one, pacing)]


def _joined(a: Burst, b: Burst) -> Burst:
    counts = {name: getattr(a, name) + getattr(b, name) for name in ("packets", *_LOST)}
    return Burst(start_ns=a.start_ns, end_ns=b.end_ns, **counts)
