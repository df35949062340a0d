"""Counts a step's stored packets anew: for other limits, or with the pace and the steps of two clocks taken out of its jitter. Floor 5.

While packets arrive nobody knows yet by how much the clocks drift, nor what is left of a delay that changed. So one-way results
between two clocks that drifted, or of which one was set, are counted a second time, when the packets are all there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual import store
from linkqual.metrics import METRICS
from linkqual.model import Conditions, Direction, Measurement, Objective, Step, Summary
from linkqual.rules import clocks
from linkqual.stats import delay, trials
from linkqual.stats.levelling import Levelling, Lowest, lowest
from linkqual.stats.pacing import Audit
from linkqual.stats.skew import clock_drift
from linkqual.stats.summary import Summarizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def recounted(folder: Path, taken: Measurement, objectives: Sequence[Objective]) -> Measurement:
    """The measurement with its summary made anew for these objectives, where its packets were kept."""
    return _recounted(folder, taken, objectives, None)


def steadied(folder: Path, taken: Measurement, objectives: Sequence[Objective]) -> Measurement:
    """A fresh measurement, counted a second time if its clocks drifted noticeably or one of them was set."""
    return _recounted(folder, taken, objectives, taken.stamp.summary if taken.stamp else None)


def _recounted(folder: Path, taken: Measurement, objectives: Sequence[Objective], first: Summary | None) -> Measurement:
    """A packet file that is not whole (the disk was full) is no use: the stored summary knows of more packets."""
    if taken.stamp is None or not store.has_packets(folder, taken.step.key):
        return taken
    counted = _steady(folder, taken.step, objectives, taken.conditions, first)
    if counted.sent != taken.stamp.summary.sent:
        return taken
    return replace(taken, stamp=replace(taken.stamp, summary=replace(counted, late=taken.stamp.summary.late)))


def _steady(
    folder: Path, step: Step, objectives: Sequence[Objective], conditions: Conditions, first: Summary | None
) -> Summary:
    """Of a step's packets. `first`: the first pass, if it was made already."""
    counted = first if first is not None else _count(folder, step, objectives)
    steps = clocks.believed(counted, conditions)
    if steps:
        counted = _count(folder, step, objectives, Levelling(steps))
    pace = clock_drift(counted)
    pace = pace if pace and clocks.noticeable(counted, conditions) else 0.0
    if steps:
        lowest = _lowest(folder, step, Levelling(steps, pace))
        return _count(folder, step, objectives, Levelling(steps, pace, lowest))
    return _count(folder, step, objectives, Levelling(pace=pace)) if pace else counted


def _count(folder: Path, step: Step, objectives: Sequence[Objective], levelling: Levelling | None = None) -> Summary:
    judged = tuple(each for each in objectives if METRICS[each.metric].probe == "stamp")
    summarizer = Summarizer(judged, levelling=levelling, audit=Audit.of(step.params))
    for rows in store.packets(folder, step.key):
        summarizer.add(rows)
    return summarizer.summary()


def _lowest(folder: Path, step: Step, levelling: Levelling) -> Lowest:
    """Smallest delays between the steps of the clocks, from which delay variation counts."""
    sent = (trials.departed(rows) for rows in store.packets(folder, step.key))
    chunks = ((rows, {each: delay.delays(rows, each) for each in Direction}) for rows in sent if len(rows))
    return lowest(chunks, levelling)
