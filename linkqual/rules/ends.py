"""Whether an end of the line, and not the line, may be what holds a rate down. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence

from linkqual.model import Diagnosis, Direction, Measurement
from linkqual.rules import hosts, seconds

OF_THE_ENDS = ("window", "host")  # causes of a short goodput (`Diagnosis.cause`) that are none of the line
NOT_OF_A_HOP = (*OF_THE_ENDS, "loss", "overhead")  # nor have these a hop of their own; of a packet rate it may be any


def holding(load: Measurement, way: Direction, diagnoses: Sequence[Diagnosis]) -> tuple[str, str]:
    """Why the rate of a load may be that of its hosts or of TCP's own window, and what to do next; "" twice without a reason."""
    if limited := hosts.limiting(load):
        return f"{limited}: the host may be the limit and not the line", seconds.FASTER
    for one in diagnoses:
        if one.direction is way and one.subject == "line" and one.cause in OF_THE_ENDS:
            return one.sentence, one.decide
    return "", ""
