"""The highest rate a line carries within a loss goal: a binary search whose failed trials are repeated once. Floor 2, pure.

RFC 2544 section 26.1 with the loss verification of RFC 9004 section 6.4 (after ETSI TST009): a trial that breaks the goal is run a
second time, and only when that breaks it too does the rate count as too high; so a loss that has nothing to do with the rate
does not send the search down. What is found is run once more, for longer (section 24: 60 s). Where that breaks the goal, short trials
have shown a buffer and not the rate: the search goes on below in steps that double, and with long trials alone.

    search = Search(maximum_bps, goal, resolution)
    while (trial := search.trial):
        search.told(Told(...))
    search.rate_bps, search.limited
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_FINALS = 16  # long trials, repeats included: a line that keeps changing its mind must not hold the search for ever
OFFERED = 0.99  # of the rate asked for: under it the trial speaks of a lower rate


@dataclass(frozen=True, slots=True)
class Trial:
    """What to send next. `final`: for the length that decides."""

    rate_bps: int
    final: bool = False
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What a trial counted; `offered_bps`: what really left. `host_lost`: of `lost`, dropped by the receiving host itself.

    `stopped`: why the trial ended early ("cap", "interrupted", "peer-lost"); "" when it did not.
    """

    sent: int
    lost: int
    offered_bps: float
    host_lost: int = 0
    stopped: str = ""


@dataclass(slots=True)
class Search:
    """One search. Rates in bit/s (any layer); `resolution`: of the maximum; `goal`: loss ratio still accepted, 0 for none."""

    maximum_bps: int
    goal: float
    resolution: float
    limited: str = ""  # why it ended before the line's limit was known; `rate_bps` is then the least it carries
    rate_bps: int | None = None  # highest that kept the goal for the final length
    _low: int = 0  # highest that kept the goal
    _high: int = 0  # lowest that broke it twice; 0: none yet
    _drop_bps: int = 0  # how far below the next long trial is tried; 0: no long trial has broken the goal
    _short: int = 0  # trials so far
    _finals: int = 0
    trial: Trial | None = None

    def __post_init__(self) -> None:
        """The first trial is at the maximum: a good line is done with it."""
        self.trial = Trial(self.maximum_bps)

    def told(self, result: Told) -> None:
        """What the pending trial counted; `trial` is then the next one, or None."""
        trial = self.trial
        assert trial is not None
        self._finals += trial.final
        self._short += not trial.final
        if result.stopped:
            self._end(result.stopped, trial, kept=False)
        elif not result.sent:
            self._end("host", trial, kept=False)
        elif self._within(result.lost, result.sent):
            self._kept_goal(trial, result)
        elif not trial.repeat:
            self.trial = Trial(trial.rate_bps, trial.final, repeat=True)
        else:  # where a host dropped what broke the goal, or fell behind and sent in lumps, what the line did is not known
            by_host = self._within(result.lost - result.host_lost, result.sent)
            behind = result.offered_bps < OFFERED * trial.rate_bps
            self._broke(trial, "host" if by_host or behind else "")
        following = self.trial
        if following is None:
            return
        if self._finals >= MOST_FINALS if following.final else self._short >= most_trials(self.resolution):
            self._end("trials", following, kept=False)

    def _within(self, lost: int, sent: int) -> bool:
        return lost <= self.goal * sent

    def _kept_goal(self, trial: Trial, result: Told) -> None:
        if result.offered_bps < OFFERED * trial.rate_bps:
            rate = int(result.offered_bps)  # the host's limit when it happens twice: the line was asked no more
            if not trial.repeat:
                self.trial = Trial(trial.rate_bps, trial.final, repeat=True)
            elif trial.final:
                self._end("host", Trial(rate, final=True), kept=True)
            else:
                self.limited, self.trial = "host", Trial(rate, final=True)
            return
        self._low = trial.rate_bps
        if trial.final and not self._drop_bps:
            self._end(self.limited, trial, kept=True)
        else:
            self._next()

    def _broke(self, trial: Trial, limited: str) -> None:
        self._high, self.limited = trial.rate_bps, limited
        if trial.final and not self._drop_bps:
            self._low, self._drop_bps = 0, max(self._near, 1)
        self._next()

    @property
    def _near(self) -> int:
        return int(self.resolution * self.maximum_bps)

    def _next(self) -> None:
        """Half way between what kept the goal and what broke it; close enough, what kept it is tried for longer."""
        long = bool(self._drop_bps)
        if long and not self._low:
            self.trial = Trial(max(self._high - self._drop_bps, self._high // 2), final=True)
            self._drop_bps *= 2
        elif self._low < self.maximum_bps and (not self._high or self._high - self._low > self._near):
            self.trial = Trial((self._low + (self._high or self.maximum_bps)) // 2, final=long)
        elif long:
            self._end(self.limited, Trial(self._low, final=True), kept=True)
        else:
            self.trial = Trial(self._low, final=True) if self._low else None

    def _end(self, why: str, trial: Trial, *, kept: bool) -> None:
        """Over. Without a final trial that kept the goal, the highest rate that did for a short one is what is known."""
        self.trial, self.limited = None, why
        self.rate_bps = trial.rate_bps if kept else self._low or None


def most_trials(resolution: float) -> int:
    """Short trials of a search at most: from the whole range to the resolution, each repeated."""
    steps, width = 1, 1.0
    while width > resolution:
        width /= 2
        steps += 1
    return 2 * steps
