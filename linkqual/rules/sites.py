"""Is the topology the same at both sites, as far as a line shows it from its ends? Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import Measurement, Plan
from linkqual.rules.looks import (
    BESIDE,
    FAIL,
    NO_FLOWS,
    NO_SIZES,
    PASS,
    UNKNOWN,
    WAYS,
    Look,
    group_words,
    groups,
    known_sizes,
    unseen,
)
from linkqual.session import compared
from linkqual.session.symmetry import UNDETERMINED
from linkqual.units import format_rate


def looks(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Look]:
    """What both ends see of the same thing: routers between them, packet sizes, interfaces, single paths; what is declared of both."""
    yield _routers(measurements)
    yield from _sizes(measurements)
    yield from _paths(measurements)
    yield from _declared(plan)
    yield from _slots(measurements)


def _routers(measurements: Sequence[Measurement]) -> Look:
    path = next((one.path for one in measurements if one.path is not None), None)
    found = compared.of(path) if path is not None else None
    if found is None or found.forward_routers is None or found.reverse_routers is None:
        return unseen("routers", "path", "not counted from both ends", measurements)
    there, back = found.forward_routers, found.reverse_routers
    if there != back and found.word == UNDETERMINED:
        return Look("routers", UNKNOWN, f"{there} or one fewer forward, {back} or one fewer back", found.settle)
    return Look("routers", PASS if there == back else FAIL, f"{there} forward, {back} back")


def _sizes(measurements: Sequence[Measurement]) -> Iterator[Look]:
    ways = known_sizes(measurements)
    if ways is None:
        yield unseen("path MTU", "mtu", NO_SIZES, measurements)
        return
    there, back = ways
    interfaces = (there.interface_bytes, back.interface_bytes)
    if None not in interfaces:
        same = interfaces[0] == interfaces[1]
        yield Look(
            "interfaces", PASS if same else FAIL, f"MTU {interfaces[0]} at the near end, {interfaces[1]} at the far end"
        )
    said = f"{there.passes} bytes forward, {back.passes} reverse"
    if there.passes == back.passes:
        yield Look("path MTU", PASS, said)
        return
    less, more = sorted((there, back), key=lambda way: way.passes or 0)
    if less.fails is not None and less.fails <= (more.passes or 0):
        yield Look("path MTU", FAIL, said)
    else:  # what the host itself does not send says nothing of the line
        why = f"no longer ones were tried {less.direction}"
        yield Look("path MTU", UNKNOWN, f"{said}, and {why}", "hosts whose interfaces take packets as long both ways")


def _paths(measurements: Sequence[Measurement]) -> Iterator[Look]:
    """Whether flows that differ by a port take paths of unlike length: both ways or neither. Loss and queues are faults and no topology."""
    found = groups(measurements)
    if len(found) < len(WAYS):
        yield unseen("single paths", "members", NO_FLOWS, measurements)
        return
    longer = [way for way in WAYS if "path" in found[way]]
    if len(longer) == 1:
        said = f"some flows take a longer path {longer[0]}, none that was sent the other way does"
        yield Look(
            "single paths",
            UNKNOWN,
            said,
            "more flows (flows: in the profile), or the carrier's own word on its parallel paths",
        )
    else:
        yield Look(
            "single paths",
            PASS,
            "some flows take a longer path, both ways" if longer else "no flow takes a longer path, either way",
        )
    if any(set(kinds) - {"path"} for kinds in found.values()):
        said = ", ".join(f"{group_words(tuple(kind for kind in found[way] if kind != 'path'))} {way}" for way in WAYS)
        yield Look("faults of single paths", BESIDE, said)


def _declared(plan: Plan) -> Iterator[Look]:
    rates = [plan.link.contracted_bps(way) for way in WAYS]
    there, back = rates
    if there is not None and back is not None:
        said = f"{format_rate(there)} forward, {format_rate(back)} reverse (declared)"
        yield Look("contracted rate", BESIDE if there == back else FAIL, said)


def _slots(measurements: Sequence[Measurement]) -> Iterator[Look]:
    for one in measurements:
        near, far = one.conditions.near.slot_bps, one.conditions.far.slot_bps
        if near is not None and far is not None and not one.conditions.same_clock:
            said = f"{format_rate(near)} at the near end, {format_rate(far)} at the far end"
            yield Look("slots of the cards", PASS if near == far else FAIL, said)
            return
