"""Every red line as a proportion: which packets are trials, which of them are bad, and what share may be.

"p99.9 <= 3 ms" is "at most 1 packet in 1000 takes over 3 ms", and a lost packet took longer than any limit. So loss and delay
answer to one test. A loss whose direction is not known counts against each direction it may have happened in: it cannot acquit
either. Floor 1, pure.

| objective | trials | bad |
| --- | --- | --- |
| loss_ratio forward | every packet sent | lost forward, or direction unknown |
| loss_ratio reverse | every packet that reached the far end, or may have | lost on the way back, or direction unknown |
| loss_ratio round-trip | every packet sent | lost |
| pX of a delay | as for loss, less those received without fit stamps | lost, or delay over the limit |
| pX of ipdv | as for a delay, less those whose predecessor has no delay | lost, or size of D(i) - D(i-1) over the limit |

Reordered and duplicated packets are known only when later ones have arrived: `summary.proportion` judges them.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt

from linkqual import metrics
from linkqual.model import Direction, Objective, Relation
from linkqual.records import ABSENT, Fate, Records, Stamp
from linkqual.stats import delay

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Fates = npt.NDArray[np.uint8]
State = dict[str, int]

_DELAYS = ("round_trip_delay", "one_way_delay", "pdv", "ipdv")


def supported(objective: Objective) -> bool:
    """Whether `trials` can judge it packet by packet: a loss ratio or a delay quantile, with a limit."""
    if objective.limit is None or objective.relation is not Relation.AT_MOST:
        return False
    if objective.metric == "loss_ratio":
        return objective.statistic == "ratio"
    return objective.metric in _DELAYS and metrics.quantile(objective.statistic) is not None


def share(objective: Objective) -> float:
    """The share of bad trials an objective allows: a ratio's limit; 1 - X for "pX at most", X for "pX at least"."""
    if metrics.quantile(objective.statistic) is None:
        if objective.statistic != "ratio" or objective.limit is None:
            raise ValueError(f"{objective.key} is no proportion")
        return objective.limit
    within = Decimal(objective.statistic[1:]) / 100
    return float(1 - within if objective.relation is Relation.AT_MOST else within)


def trials(records: Records, objective: Objective, state: State, expected: Stamp | None = None) -> Bools:
    """Bad trials among the trials of this chunk, in order of sequence number.

    `state`: a dict the caller keeps per objective and hands back with the next chunk ({} at the start); it carries the smallest
    delay so far (pdv) and the delay of the last packet sent (ipdv), so that chunking changes nothing. `pdv` is judged against the
    smallest delay *so far*: what a decision taken at that packet could know.
    """
    if not supported(objective):
        raise ValueError(f"{objective.key} cannot be judged packet by packet")
    sent = departed(records)
    delays = None if objective.metric == "loss_ratio" else delay.delays(sent, objective.direction, expected)
    return of_sent(sent["fate"], objective, state, delays)


def departed(records: Records) -> Records:
    """The rows that were sent (the very array when all were)."""
    sent = records["fate"] != Fate.UNSENT
    return records if sent.all() else records[sent]


def of_sent(fate: Fates, objective: Objective, state: State, delays: Ints | None = None) -> Bools:
    """`trials` on columns of rows that were sent: their fate and, for a delay, the delays of the objective's direction."""
    lost, met = _lost(fate, objective.direction), _met(fate, objective.direction)
    if objective.metric == "loss_ratio":
        return _pick(lost, met)
    assert delays is not None
    assert objective.limit is not None
    values = _values(delays, objective.metric, state)
    known = values != ABSENT
    return _pick(lost | (known & (values > objective.limit)), met & (lost | known))


def _pick(column: Bools, where: Bools) -> Bools:
    picked: Bools = column[where]
    return picked


def _lost(fate: Fates, direction: Direction) -> Bools:
    """Lost in this direction, or nobody knows where."""
    if direction is Direction.ROUND_TRIP:
        return np.not_equal(fate, Fate.RECEIVED)
    own = Fate.LOST_FORWARD if direction is Direction.FORWARD else Fate.LOST_REVERSE
    return np.equal(fate, Fate.LOST) | np.equal(fate, own)


def _met(fate: Fates, direction: Direction) -> Bools:
    """Packets that met this direction at all."""
    return np.not_equal(fate, Fate.LOST_FORWARD) if direction is Direction.REVERSE else np.ones(fate.shape, np.bool_)


def _values(delays: Ints, metric: str, state: State) -> Ints:
    if metric == "pdv":
        return _running_pdv(delays, state)
    if metric == "ipdv":
        steps = delay.ipdv(delays, state.get("previous", ABSENT))
        if delays.size:
            state["previous"] = int(delays[-1])
        return np.where(steps == ABSENT, ABSENT, np.abs(steps))
    return delays


def _running_pdv(delays: Ints, state: State) -> Ints:
    """Delay above the smallest of this packet and all before it."""
    none = np.iinfo(np.int64).max
    column = np.concatenate([[state.get("smallest", none)], np.where(delays == ABSENT, none, delays)])
    smallest = np.minimum.accumulate(column)
    state["smallest"] = int(smallest[-1])
    return np.where(delays == ABSENT, ABSENT, delays - smallest[1:])
