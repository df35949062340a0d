"""What the self-checks look at, and what several of them ask of the same measurements. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linkqual.model import Direction, Measurement, MtuWay
from linkqual.session import members, mtu

PASS, FAIL, UNKNOWN = "PASS", "FAIL", "UNKNOWN"
BESIDE = ""  # of a look that is shown and decides nothing
WAYS = (Direction.FORWARD, Direction.REVERSE)
NOT_MEASURED = "not measured"
NO_FLOWS = "flows that differ by a port were not told apart in both directions"
NO_SIZES = "not known in both directions"


@dataclass(frozen=True, slots=True)
class Look:
    """One thing that was looked at. `outcome` BESIDE: evidence that decides nothing. `shown`: as evidence, where that is more than `said`."""

    what: str
    outcome: str
    said: str
    settle: str = ""
    shown: str = ""
    probe: str = ""  # that was not run and would tell


def unseen(what: str, probe: str, why: str, measurements: Sequence[Measurement]) -> Look:
    """UNKNOWN: the probe was not run; or it was, and `why` says what kept it from telling."""
    if any(one.step.probe == probe and one.measured for one in measurements):
        return Look(what, UNKNOWN, why, f"measure again with the {probe} probe")
    return Look(what, UNKNOWN, NOT_MEASURED, probe=probe)


def known_sizes(measurements: Sequence[Measurement]) -> tuple[MtuWay, MtuWay] | None:
    """Both directions, where both were searched to an end."""
    result = next((one.mtu for one in measurements if one.mtu is not None), None)
    if result is None:
        return None
    there, back = (mtu.of_direction(result.ways, way) for way in WAYS)
    if there is None or back is None or any(way.passes is None or way.kind == "unknown" for way in (there, back)):
        return None
    return there, back


def groups(measurements: Sequence[Measurement]) -> dict[Direction, tuple[str, ...]]:
    """Kinds of flows that fare worse, of each direction whose flows were told apart.

    None where nothing arrived, a host dropped packets, or the rounds were cut short.
    """
    results = [one.members for one in measurements if one.members is not None]
    return {
        one.direction: tuple(group.kind for group in members.read(one).groups)
        for one in results
        if any(flow.lost < flow.sent for flow in one.flows) and not one.host_lost and one.short in ("", "host")
    }


_GROUPS = {"loss": "some lose packets", "path": "some take a longer path", "queue": "some wait in a queue"}


def group_words(kinds: tuple[str, ...]) -> str:
    """ "some lose packets", "all flows alike"."""
    return " and ".join(_GROUPS.get(kind, kind) for kind in dict.fromkeys(kinds)) or "all flows alike"
