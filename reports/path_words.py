"""What the path comes to, in sentences: for the terminal and above the picture."""

from __future__ import annotations

from collections.abc import Iterator

from linkqual.model import Direction, PathResult, Qualification
from linkqual.reports import path_marks, paths
from linkqual.reports.wording import ARROWS
from linkqual.rules import loaded_path, members, narrow, route_symmetry
from linkqual.session import compared
from linkqual.session.symmetry import UNDETERMINED
from linkqual.units import format_count

PROBES = frozenset({"path", "mtu", "members", "narrow", "gentle"})
Lines = list[tuple[str, str]]


def about_path(q: Qualification) -> bool:
    """Whether this run looked at the path and at nothing else: the terminal then draws it."""
    probes = {step.probe for step in q.plan.steps} | {m.step.probe for m in q.measurements}
    return bool(probes) and probes <= PROBES


def course(q: Qualification, *, whole: bool = True) -> Lines:
    """(head, text): whether both directions are one way, and the narrowest hop of each. Not `whole`: what is open only in short."""
    path = next((m.path for m in q.measurements if m.path), None)
    said = [("path", _compared(path, whole=whole))] if path is not None else []
    for way in (Direction.FORWARD, Direction.REVERSE):
        found = path_marks.narrow_of(q.measurements, way)
        said += [("narrowest", narrow.told(q.measurements, found))] if found is not None else []
    return said


def _compared(path: PathResult, *, whole: bool) -> str:
    """The word first, whatever it is."""
    word = compared.of(path).word
    if word == UNDETERMINED and not whole:
        return f"{word}: {path.because}"
    return f"{word}: {route_symmetry.sentence(path).removeprefix(f'{word}: ')}"


def told(q: Qualification) -> Lines:
    """What the terminal says of the path: all of it where the run was about nothing else."""
    return sentences(q) if about_path(q) else course(q, whole=False)


def sentences(q: Qualification) -> Lines:
    """The same with the length of packets, single paths and where a load queues."""
    return [*course(q), *_loaded(q), *_sizes(q), *_members(q)]


def _loaded(q: Qualification) -> Iterator[tuple[str, str]]:
    for way in (Direction.FORWARD, Direction.REVERSE):
        if said := loaded_path.told(q.measurements, way)[0]:
            yield "under load", said


def _sizes(q: Qualification) -> Iterator[tuple[str, str]]:
    said = []
    for size in paths.sizes(q):
        passes = f"{format_count(size.way.passes)} B" if size.way.passes is not None else "not known"
        where = f", {size.where}" if size.where else ""
        said.append(f"{ARROWS[size.way.direction]} {passes} ({size.words}{where})")
    if said:
        yield "MTU", "; ".join(said)


def _members(q: Qualification) -> Iterator[tuple[str, str]]:
    alike: dict[int, list[str]] = {}  # directions by the number of flows
    for one in paths.flows(q):
        if one.found.silent:
            yield "members", f"{ARROWS[one.result.direction]} none of {format_count(one.found.sent)} packets arrived"
        elif not one.groups:
            alike.setdefault(len(one.result.flows), []).append(ARROWS[one.result.direction])
    for flows, ways in alike.items():
        yield "members", f"{' and '.join(ways)} none of {flows} flows fares worse than the others"
    for note in members.notes(q.measurements):
        yield "members", note.sentence
