"""Which part of a line carries how much, and in whose part a fault lies. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction

Evidence = tuple[tuple[str, str], ...]  # (what was looked at, what it showed)


@dataclass(frozen=True, slots=True)
class Place:
    """One of the three that a line is made of, in one direction: an end's egress, or the middle.

    `state`: "measured" (also where only a lower bound is), "declared" (by contract or link file) or "unknown".
    """

    name: str  # "end A's egress", "the middle", "end B's egress"
    direction: Direction
    state: str
    said: str
    evidence: Evidence = ()


@dataclass(frozen=True, slots=True)
class Located:
    """A fault and the part of the line it lies in, in one direction.

    `after` and `before` count hops as packets of this direction meet them: 0 is the sending host, the last one the receiving host. The
    fault lies on the links between them; both None: anywhere.
    """

    fault: str  # "narrowest hop", "throughput", "loss", "path MTU", "other routers", "lossy member", "slow member"
    direction: Direction
    where: str  # "between hop 2 (192.0.2.1) and hop 3 (192.0.2.5)"
    after: int | None = None
    before: int | None = None
    segments: tuple[str, ...] = ()  # names of those it may lie in, as packets meet them; none where none are declared
    suppliers: tuple[str, ...] = ()
    confidence: str = ""  # "high", "medium", "low"
    evidence: Evidence = ()
    sentence: str = ""
    settle: str = ""  # what would settle it; "" where nothing is open
