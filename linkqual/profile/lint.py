"""What a careful reader would remark of a profile: no error, but likely not what is meant. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence

from linkqual.metrics import METRICS, quantile
from linkqual.model import Direction, Objective, Profile
from linkqual.profile.limits import NONE

_TAIL = 0.99
_OF_THE_PATH = frozenset({"path", "mtu", "members"})
_ONE_WAY = {Direction.FORWARD, Direction.REVERSE}


def rank_of(statistic: str) -> float | None:
    """Where a statistic stands in a distribution: 0.99 of "p99", below every quantile "min", above them "max"; None: nowhere."""
    return {"min": -1.0, "max": 2.0}.get(statistic, quantile(statistic))


def lint(objectives: Sequence[Objective]) -> tuple[str, ...]:
    """Remarks on one profile, as sentences."""
    objectives = [one for one in objectives if METRICS[one.metric].probe != "search"]  # of a search nothing is a sample
    judged = [one for one in objectives if one.limit_text != NONE]
    if not objectives:
        return ()
    return (*_tails(objectives, judged), *_one_sided(judged), *_unprovable(judged), *_toothless(judged))


def _tails(objectives: Sequence[Objective], judged: list[Objective]) -> list[str]:
    if all(METRICS[one.metric].probe in _OF_THE_PATH for one in objectives):
        return []  # asks which way packets take, not how they fare
    if not any(METRICS[one.metric].unit == "ns" for one in objectives):
        return ["no delay or jitter is measured: throughput and loss alone do not describe a line"]
    delays = [one for one in judged if METRICS[one.metric].unit == "ns"]
    if any((rank_of(one.statistic) or 0) >= _TAIL for one in delays):
        return []
    return ["no tail metric: a median or mean hides the slow packets a step or a token waits for; add p99 or p99.9"]


def _one_sided(judged: list[Objective]) -> list[str]:
    notes = []
    for metric in ("loss_ratio", "throughput"):
        directions = {one.direction for one in judged if one.metric == metric} & _ONE_WAY
        if len(directions) == 1:
            notes.append(f"{metric} is judged {directions.pop()} only: the other direction may differ")
    return notes


def _unprovable(judged: list[Objective]) -> list[str]:
    return [
        f"{one.key}: the {one.statistic} of a sample proves nothing of other packets; a quantile can be proven"
        for one in judged
        if one.statistic in {"max", "min", "mean"}
    ]


def _toothless(judged: list[Objective]) -> list[str]:
    return (
        [] if any(one.required for one in judged) else ["nothing required has a limit: no line can fail this profile"]
    )


def compare(first: Profile, second: Profile) -> str:
    """The remark on two yardsticks that are one: every limit equal though the purposes differ. Empty when they differ."""

    def limits(profile: Profile) -> set[tuple[str, str]]:
        return {(one.key, one.limit_text) for one in profile.objectives if one.limit_text != NONE}

    if first.name == second.name or not limits(first) or limits(first) != limits(second):
        return ""
    return (
        f"{first.name} and {second.name} ask the same of a line: training breaks on loss and slow seconds, "
        "inference on the delay a user feels; one yardstick fits neither"
    )
