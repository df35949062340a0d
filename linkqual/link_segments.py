"""The parts that a line is made of and who supplies each, from a link file -> `model.LineSegment`.

    segments:                 # from the near end on
      - name: access Shanghai
        supplier: Carrier A
        from: near            # the host at that end
        to: 192.0.2.1         # a router's address, or a prefix: a router of the link, nearest to the near end, that has it
      - name: core
        supplier: Carrier B
        from: 192.0.2.1
        to: 3                 # the third hop, as packets from the near end meet it
        rate: 10 Gbit/s       # that it is said to carry each way
      - {name: campus, from: 3, to: far}

Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from itertools import combinations

from linkqual.errors import InputError
from linkqual.model import LineSegment
from linkqual.settings import Listing, Section

MOST = 20
MOST_HOPS = 64
PLACES = f"near, far, a router's address (192.0.2.1), a prefix (192.0.2.0/24), or the number of a hop from the near end (1 to {MOST_HOPS})"


def read(section: Section, words: Callable[[str], str], rate: Callable[[str], int]) -> tuple[LineSegment, ...]:
    """The segments below `segments`, as written; what is wrong with them becomes a complaint. `words`, `rate`: readers of such values."""
    node = section.raw("segments")
    if node is None:
        return ()
    if not isinstance(node, Listing) or not 1 <= len(node.items) <= MOST:
        section.complain("segments", "is no list of segments", f"1 to {MOST} of them, each '- name: ...'")
        return ()
    found: list[LineSegment] = []
    for number, item in enumerate(node.items, 1):
        inner = section.as_section(item, f"{section.label('segments')}#{number}")
        if inner is None:
            continue
        name = inner.get("name", words, None, required=True, allowed="a name")
        start = inner.get("from", place, None, required=True, allowed=PLACES)
        end = inner.get("to", place, None, required=True, allowed=PLACES)
        supplier, carried = inner.get("supplier", words, None), inner.get("rate", rate, None)
        if name in {one.name for one in found}:
            inner.complain("name", f"{name!r} is the name of two segments", "each its own")
        if start and end and not _apart(start, end):
            inner.complain("to", f"{end} does not lie beyond {start}, where the segment begins", "a place farther from the near end")  # fmt: skip
        if name and start and end:
            found.append(LineSegment(name, start, end, supplier, carried))
        inner.close()
    for one, other in combinations(found, 2):
        if _shared(one, other):
            section.complain("segments", f"{one.name!r} and {other.name!r} share links", "segments that do not overlap")
    return tuple(found)


def place(value: str) -> str:
    """A place on the line in the form `LineSegment` keeps. InputError for anything else."""
    text = value.strip()
    if text in ("near", "far"):
        return text
    if text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_HOPS:
        return str(int(text))
    try:
        return str(ip_address(text)) if "/" not in text else str(ip_network(text))
    except ValueError:
        raise InputError(f"{text[:60]!r} is no place on a line", PLACES) from None


def _apart(start: str, end: str) -> bool:
    """False where it is clear that a segment cannot run from one to the other."""
    one, other = _rank(start), _rank(end)
    if one is None or other is None:
        return start not in ("far", end) and end != "near"
    return one < other


def _rank(text: str) -> float | None:
    """Where a place lies, in hops from the near end; None: the trace will tell."""
    return {"near": 0.0, "far": float("inf")}.get(text, float(text) if text.isdigit() else None)


def _shared(one: LineSegment, other: LineSegment) -> bool:
    """Whether two segments whose places are all known by number have a link in common."""
    low, high, start, end = (_rank(text) for text in (one.start, one.end, other.start, other.end))
    if low is None or high is None or start is None or end is None:
        return False
    return max(low, start) < min(high, end)
