"""What both ends counted of the bursts of one direction, put together. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.model import BurstsResult, Direction, Json
from linkqual.session.bursts import INCOMPLETE, Shape
from linkqual.stats.histogram import LogLinear

Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Told:
    """`sent`: rows of `session.bursts.SENT`; `arrived`: rows of `session.bursts.arrived`; `whole`: the receiver has told of its last ones."""

    sent: Rows
    arrived: Rows
    base_rtt_ns: int | None
    dropped: int  # by the receiving socket
    whole: bool


def result(
    direction: Direction, shape: Shape, params: Mapping[str, Json], told: Told, stopped_by: str, *, silent: bool
) -> BurstsResult:
    """The result of a direction. `silent`: nothing was heard at the end, so bursts not complete then are no evidence about the line."""
    sent = np.sort(told.sent, order="burst")
    if silent:
        complete = np.flatnonzero(sent["completion_ns"] != INCOMPLETE)
        sent = sent[: int(complete[-1]) + 1 if len(complete) else 0]
    left = (sent["completion_ns"] != INCOMPLETE) | (sent["first"] == shape.packets)
    unsent, sent = int((~left).sum()), sent[left]
    completions = sent["completion_ns"].tolist()
    histogram = LogLinear()
    histogram.add(sent["completion_ns"][sent["completion_ns"] != INCOMPLETE])
    way = params[str(direction)]
    known, by_burst, by_position = _losses(shape, sent, told)
    return BurstsResult(
        direction=direction,
        pattern=params["pattern"],
        burst_bytes=shape.packets * shape.packet_bytes,
        period_ns=shape.period_ns,
        flows=shape.flows,
        packet_bytes=way["ip_bytes"],
        source=params["source"],
        pace_bps=way["pace_bps"],
        transfer_ns=shape.transfer_ns,
        quiet_ns=shape.quiet_ns,
        sent=len(sent),
        unsent=unsent,
        completed=sum(one != INCOMPLETE for one in completions),
        completion=histogram.data(),
        completions_ns=tuple(None if one == INCOMPLETE else one for one in completions),
        held_ns=tuple(sent["held_ns"].tolist()),
        base_rtt_ns=told.base_rtt_ns,
        late_starts=int(sent["late"].sum()),
        packets=known * shape.packets,
        lost=int(by_burst.sum()),
        host_lost=min(told.dropped, int(by_burst.sum())) if told.whole else told.dropped,
        lost_by_burst=tuple(by_burst.tolist()),
        positions=shape.positions,
        lost_by_position=tuple(by_position.tolist()),
        repaired=int(sent["repeats"].sum()),
        stopped_by=stopped_by,
    )


def _losses(shape: Shape, sent: Rows, told: Told) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(bursts whose arrivals are known, first copies lost of each of these, and of each position).

    A burst of which nothing arrived is known as lost once a later one was settled, or the receiver told of its last ones.
    """
    newest = int(told.arrived["burst"].max()) if len(told.arrived) else -1
    known = [burst for burst in sent["burst"].tolist() if told.whole or burst <= newest]
    lost = {int(row["burst"]): row["lost"] for row in told.arrived}
    whole = np.bincount(shape.position(np.arange(shape.packets)), minlength=shape.positions)
    parts = np.array([lost.get(burst, whole) for burst in known], np.int64).reshape(len(known), shape.positions)
    return len(known), parts.sum(axis=1), parts.sum(axis=0)
