"""What a virtual line says of itself: its own counters, laid beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from linkqual.model import Qualification
from linkqual.reports.wording import named_value, readable_name
from linkqual.units import format_count

WAYS = ("forward", "reverse")
ALWAYS = {"dropped", "udp dropped"}  # shown at zero too: what a measured loss is held against


@dataclass(frozen=True, slots=True)
class Truth:
    """Three tables: both directions side by side, parts of the line in which anything happened, and the rest."""

    ways: tuple[tuple[str, str, str], ...]  # name, forward, reverse
    parts: tuple[tuple[str, str], ...]  # which part, its counters
    facts: tuple[tuple[str, str], ...]  # name, value


def truth(q: Qualification) -> Truth:
    """The counters of `q.truth`, whatever a line chooses to count. Counters that stand at zero everywhere are left out."""
    sides = [dict(_leaves(q.truth[way])) if isinstance(q.truth.get(way), dict) else {} for way in WAYS]
    names = dict.fromkeys(name for side in sides for name in side)
    there, back = sides
    ways = [
        (readable_name(name), named_value(name, there.get(name)), named_value(name, back.get(name)))
        for name in names
        if name in ALWAYS or any(side.get(name) for side in sides)
    ]
    lists = {name: value for name, value in q.truth.items() if isinstance(value, list)}
    rest = {name: value for name, value in q.truth.items() if name not in lists and name not in WAYS}
    return Truth(
        ways=(*_measured(q), *ways) if any(sides) else (),
        parts=tuple(part for items in lists.values() for item in items if (part := _part(item))),
        facts=tuple((readable_name(name), named_value(name, value)) for name, value in _leaves(rest)),
    )


def _measured(q: Qualification) -> list[tuple[str, str, str]]:
    """The loss as measured, to be held against what the line dropped."""
    summary = next((m.stamp.summary for m in q.measurements if m.stamp), None)
    if summary is None:
        return []
    lost = ("lost, as measured by STAMP", format_count(summary.lost_forward), format_count(summary.lost_reverse))
    return [lost]


def _part(item: Any) -> tuple[str, str] | None:
    """A link or hop with its counters that moved; None when nothing happened there."""
    if not isinstance(item, dict):
        return ("", named_value("", item))
    names = [str(value) for value in item.values() if isinstance(value, str)]
    moved = [
        f"{readable_name(name)} {named_value(name, value)}"
        for name, value in _leaves(item)
        if value and isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return (" → ".join(names), ", ".join(moved)) if moved else None


def _leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of nested counters, the plain ones first."""
    for key, value in sorted(tree.items(), key=lambda item: isinstance(item[1], dict)):
        name = f"{prefix} {key}" if prefix else str(key)
        if isinstance(value, dict):
            yield from _leaves(value, name)
        else:
            yield name, value
