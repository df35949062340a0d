"""Packets between two clocks that are set, slewed or drift, on a line whose delays are known and may change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linkqual.records import Fate, Records, Stamp, empty_records

from .streams import MS, START

RESIDENCE = 20_000


@dataclass(frozen=True)
class World:
    """`jitter_ns`: mean queueing each way. `step_ns`: by which the clock of `end` is set at packet `at`, worked off at `slew` s/s.

    `drift`: of the far clock. `route_ns`: what the way forward gets longer by, for good, at packet `at`.
    """

    packets: int = 4000
    rate: float = 1000.0
    base_ns: float = 5.0 * MS
    jitter_ns: float = 20_000
    at: int = 2000
    step_ns: int = 0
    end: str = "far"
    slew: float = 0.0
    drift: float = 0.0
    offset_ns: int = 0
    route_ns: float = 0.0
    lost: float = 0.0
    seed: int = 1

    def records(self) -> Records:
        """What both ends stamp."""
        rng = np.random.default_rng(self.seed)
        n = self.packets
        left = (np.arange(n) * 1e9 / self.rate).astype(np.int64) + rng.integers(0, 5000, n)
        there, back = (self.base_ns + rng.gamma(2, self.jitter_ns / 2, n) for _ in range(2))
        there[self.at :] += self.route_ns
        reached = left + there.astype(np.int64)
        returned = reached + RESIDENCE + back.astype(np.int64)
        moment = int(left[self.at]) + 40_000
        rows = empty_records(n)
        rows["sent_ns"] = rows["intended_ns"] = self._shown(left, "near", moment)
        rows["far_received_ns"] = self._shown(reached, "far", moment)
        rows["far_sent_ns"] = self._shown(reached + RESIDENCE, "far", moment)
        rows["received_ns"] = self._shown(returned, "near", moment)
        rows["far_seq"], rows["arrival"] = (np.argsort(np.argsort(when, kind="stable")) for when in (reached, returned))
        rows["fate"], rows["stamps"] = Fate.RECEIVED, int(Stamp.ALL_KERNEL)
        rows["forward_ttl"] = rows["reverse_ttl"] = 60
        rows["packet_bytes"] = 100
        gone = np.flatnonzero(rng.random(n) < self.lost)
        for name in ("far_received_ns", "far_sent_ns", "received_ns", "far_seq", "arrival"):
            rows[name][gone] = -(2**63)
        rows["fate"][gone] = Fate.LOST_FORWARD
        return rows

    def _shown(self, true_ns: np.ndarray, end: str, moment: int) -> np.ndarray:
        shown = START + true_ns
        if end == "far":
            shown = shown + self.offset_ns + np.round(self.drift * true_ns).astype(np.int64)
        if end == self.end and self.step_ns:
            worked_off = np.minimum(abs(self.step_ns), self.slew * np.maximum(true_ns - moment, 0))
            now = np.round(self.step_ns - np.sign(self.step_ns) * worked_off).astype(np.int64)
            shown = shown + np.where(true_ns >= moment, now, 0)
        return shown

    @property
    def relative_ns(self) -> int:
        """By which the far clock moved against the near one."""
        return self.step_ns if self.end == "far" else -self.step_ns
