"""How far the observations bear out a cause, and the diagnosis that follows from all causes together. Pure.

A cause is proven when two observations of different kinds agree on it and what else could look like it is excluded; it fits when
one observation says so. High confidence needs one proven cause, no other that fits, and enough of every observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from linkqual.model import Diagnosis, Direction

CAUSES_OF_THE_LINE = ("policer", "shaper", "per-flow cap", "hashing", "loss")
UNLOOKED = "the cause was not looked into"
ASK = "ask the carrier with these figures at hand"
Lines = tuple[tuple[str, str], ...]  # what was looked at, what it showed


class Fit(IntEnum):
    """How well a cause fits; what was not looked at stands above what was refuted."""

    REFUTED = 0
    UNSEEN = 1
    POSSIBLE = 2
    FITS = 3
    PROVEN = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """One cause held against the observations of one direction. `said`: the cause with its numbers, or why it is none or unseen."""

    cause: str
    fit: Fit
    said: str
    evidence: Lines = ()
    thin: str = ""  # why it cannot be held for certain although it is proven
    decide: str = ""  # what to do next
    tried: bool = False  # unseen, although what shows it ran


def refuted(cause: str, said: str) -> Reading:
    """What was looked for and does not fit."""
    return Reading(cause, Fit.REFUTED, said)


def unseen(cause: str, said: str) -> Reading:
    """What could not be looked for."""
    return Reading(cause, Fit.UNSEEN, said)


def diagnosis(direction: Direction, short: str, subject: str, readings: Sequence[Reading], thin: str = "") -> Diagnosis:
    """`short`: the sentence that says what falls short; `thin`: why nothing at all can be held for certain."""
    best = max(readings, key=lambda one: one.fit)  # the first of equals: causes stand in the order of their evidence
    if best.fit < Fit.POSSIBLE:
        return _none(direction, short, subject, readings)
    rivals = [one for one in readings if one is not best and one.fit >= Fit.FITS]
    confidence, because = _confidence(best, rivals, thin)
    return Diagnosis(
        direction,
        best.cause,
        confidence,
        f"{short}: {best.said}",
        best.evidence,
        _against(readings, best),
        best.decide or ASK,
        because,
        subject,
    )


def _confidence(best: Reading, rivals: Sequence[Reading], thin: str) -> tuple[str, str]:
    doubt = best.thin or thin
    others = " and ".join(one.cause for one in rivals)
    if best.fit is Fit.POSSIBLE:
        return "low", "nothing measured speaks against it, and nothing but the size of the shortfall for it"
    if best.fit is Fit.FITS:
        if rivals:
            return "low", f"{others} would fit as well"
        return "medium", doubt or "one kind of observation says so; a second of another kind would settle it"
    if rivals:
        return "medium", f"two kinds of observation agree, but {others} would fit as well"
    if doubt:
        return "medium", doubt
    return "high", "observations of different kinds agree, and the other causes looked for do not fit"


def _none(direction: Direction, short: str, subject: str, readings: Sequence[Reading]) -> Diagnosis:
    open_ = [one for one in readings if one.fit is Fit.UNSEEN]
    because = "; ".join(
        part for part in (_names("not looked for", open_, False), _names("looked for in vain", open_, True)) if part
    )
    confidence = "low" if because else "medium"
    decide = "; ".join(dict.fromkeys(one.decide for one in open_ if one.decide))
    decide = decide or f"measure again for longer and at another hour, and {ASK}"
    because = because or "every cause known here was looked for"
    said = f"{short}: {_found_nothing(readings)}"
    return Diagnosis(direction, "none", confidence, said, (), _against(readings), decide, because, subject)


def _names(head: str, unseen: Sequence[Reading], tried: bool) -> str:
    found = dict.fromkeys(one.cause for one in unseen if one.tried is tried)
    return f"{head}: {', '.join(found)}" if found else ""


def _found_nothing(readings: Sequence[Reading]) -> str:
    """What TCP tells by itself (windows, hosts, headers) is no search for a cause in the line."""
    line = [one for one in readings if one.cause in CAUSES_OF_THE_LINE]
    if any(one.fit is not Fit.UNSEEN for one in line):
        return "none of the causes looked for explains it"
    return "what was run to find the cause told nothing" if any(one.tried for one in line) else UNLOOKED


def _against(readings: Sequence[Reading], chosen: Reading | None = None) -> Lines:
    words = {
        Fit.UNSEEN: "not looked for: ",
        Fit.POSSIBLE: "possible: ",
        Fit.FITS: "fits too: ",
        Fit.PROVEN: "fits too: ",
    }
    return tuple(
        (one.cause, ("looked for in vain: " if one.tried else words.get(one.fit, "")) + one.said)
        for one in readings
        if one is not chosen
    )
