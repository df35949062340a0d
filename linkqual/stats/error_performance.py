"""Error performance: errored, severely errored and unavailable seconds, and availability by a window that looks ahead.

RFC 3592 section 3.5 (the counters of SONET sections, in the manner of ITU-T G.826) carried over to packets, and the state
machine of MEF 10.3. Thresholds are arguments: a contract names its own. Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.stats.availability import runs

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ErrorSeconds:
    """Errored, severely errored and unavailable seconds. ES and SES count in available time only."""

    observed: int
    es: int
    ses: int
    uas: int

    @property
    def esr(self) -> float | None:
        """Errored seconds of the available ones."""
        return self.es / (self.observed - self.uas) if self.observed > self.uas else None

    @property
    def sesr(self) -> float | None:
        """Severely errored seconds of the available ones."""
        return self.ses / (self.observed - self.uas) if self.observed > self.uas else None


def error_seconds(
    sent: npt.ArrayLike, lost: npt.ArrayLike, severe: float = 0.5, least: int = 10, run: int = 10
) -> ErrorSeconds:
    """ES, SES and UAS of per-second counts. ES: a packet lost; SES: at least `severe` of `least` packets or more lost.

    Unavailable time begins with the first of `run` consecutive SES, which belong to it, and ends with the first of `run`
    consecutive seconds that are not, which do not. A second without packets is of neither kind: it breaks a run, is not
    counted, and leaves the state as it was.
    """
    tried, gone = np.asarray(sent, np.int64), np.asarray(lost, np.int64)
    seen = tried > 0
    severely = (tried >= least) & (gone >= severe * tried)
    up = _turning(severely, seen & ~severely, run)
    return ErrorSeconds(
        observed=int(seen.sum()),
        es=int(((gone > 0) & seen & up).sum()),
        ses=int((severely & up).sum()),
        uas=int((seen & ~up).sum()),
    )


def _turning(bad: Bools, good: Bools, run: int) -> Bools:
    """Whether each interval is available: the state turns at the start of `run` intervals that all speak against it."""
    up, state = np.ones(bad.size, np.bool_), True
    turns = sorted(
        (begin, to) for to, flags in ((False, bad), (True, good)) for begin, end in runs(flags) if end - begin >= run
    )
    at = 0
    for begin, to in turns:
        if to != state:
            up[at:begin] = state
            at, state = begin, to
    up[at:] = state
    return up


@dataclass(frozen=True, slots=True)
class WindowedAvailability:
    """MEF availability of small intervals: `available` each, and how many available ones were high-loss (HLI)."""

    available: Bools
    high_loss: int
    consecutive_high_loss: int

    @property
    def ratio(self) -> float | None:
        """Available intervals of all."""
        return float(self.available.mean()) if self.available.size else None


def windowed(flr: Sequence[float], threshold: float = 0.5, run: int = 10, consecutive: int = 5) -> WindowedAvailability:
    """State machine over frame loss ratios of small intervals (MEF 10.3 section 8.8.4): looks `run` intervals ahead.

    An interval turns unavailable when it and the next run - 1 are all over the threshold, available again when all are at or under it;
    near the end, where the look-ahead is incomplete, the state stays. CHLI: runs of at least `consecutive` available HLI.
    """
    over = np.asarray(flr, np.float64) > threshold
    up = _turning(over, ~over, run)
    high = over & up
    chains = sum(end - begin >= consecutive for begin, end in runs(high))
    return WindowedAvailability(up, int(high.sum()), chains)
