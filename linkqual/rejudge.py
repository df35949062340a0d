"""Judges a stored run again: counts its packets anew against the limits of a profile, then applies the rules. Floor 5.

Two stored traces are compared anew. Only the run folder is read. Where the packets of a step were not kept, its stored distributions serve (their bucket
error of less than 0.1 % then holds for shares over a new limit).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual import plan as planner
from linkqual.metrics import METRICS
from linkqual.model import Note
from linkqual.recount import recounted
from linkqual.runner import judged
from linkqual.session import compared

if TYPE_CHECKING:
    from pathlib import Path

    from linkqual.model import Link, Objective, Profile, Qualification


def rejudge(folder: Path, stored: Qualification, profile: Profile, link: Link) -> Qualification:
    """The stored document with the verdict of `profile` on `link`; what was sent stays as it was."""
    objectives = _objectives(stored, profile, link)
    plan = replace(stored.plan, profile=profile.name, objectives=objectives, link=link)
    measurements = tuple(compared.filled(recounted(folder, taken, objectives)) for taken in stored.measurements)
    done = judged(replace(stored, profile=profile, plan=plan, measurements=measurements))
    pairs = zip(stored.measurements, measurements, strict=True)
    by_hearsay = ", ".join(taken.step.key for taken, counted in pairs if taken.stamp and counted is taken)
    if by_hearsay and done.verdict is not None:
        said = f"the packets of {by_hearsay} are not all there: judged by the distributions stored with the run"
        notes = (*done.verdict.notes, Note("host", said, "warn"))
        done = replace(done, verdict=replace(done.verdict, notes=notes))
    return done


def _objectives(stored: Qualification, profile: Profile, link: Link) -> tuple[Objective, ...]:
    """The red lines: those it was judged by when nothing is new; of a simulated run only what a simulation can show."""
    if profile == stored.profile and link == stored.plan.link:
        return stored.plan.objectives
    objectives = planner.red_lines(profile, link)
    return tuple(one for one in objectives if not stored.simulated or METRICS[one.metric].probe == "stamp")
