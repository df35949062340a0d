"""The three self-checks, and both directions beside each other: as the page, the terminal and the sheet show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linkqual.model import Outcome, Qualification, SelfCheck
from linkqual.reports.wording import SIGNS, Sign
from linkqual.rules import directions
from linkqual.rules.beside import Beside
from linkqual.units import format_ratio, format_value

UNKNOWN = Sign("UNKNOWN", "?", "?", "inconclusive")
_SIGNS = {"PASS": SIGNS[Outcome.PASS], "FAIL": SIGNS[Outcome.FAIL]}
_SEEN = "as far as both ends see"


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of both directions, in words."""

    beside: Beside
    forward: str
    reverse: str
    ratio: str  # "62 % (61 to 63 %)", "1.9 times"; "" where one is nothing


def checks_of(q: Qualification) -> tuple[SelfCheck, ...]:
    """None in documents of earlier versions, and without a verdict."""
    return q.verdict.checks if q.verdict else ()


def sign(check: SelfCheck) -> Sign:
    """How its outcome looks; of one this version does not know, as UNKNOWN."""
    return _SIGNS.get(check.outcome, UNKNOWN)


def section(q: Qualification) -> dict[str, Any]:
    """What the template checks.html asks for."""
    found = rows(q) if checks_of(q) or q.verdict is None else []
    return {"checks": [(one, sign(one)) for one in checks_of(q)], "rows": found, "shown": bool(checks_of(q) or found)}


def rows(q: Qualification) -> list[Row]:
    """Every quantity that was measured in both directions."""
    return [_row(one) for one in directions.of(q.plan.link, q.measurements, q.verdict.diagnoses if q.verdict else ())]


def _row(one: Beside) -> Row:
    ratio = ""
    if one.ratio is not None:
        value, low, high = one.ratio
        words = format_ratio if one.what in ("goodput", "both at once") else _times
        span = f" ({words(low)} to {words(high)})" if low is not None and high is not None else ""
        ratio = f"{words(value)}{span}"
    return Row(one, format_value(one.forward, one.unit), format_value(one.reverse, one.unit), ratio)


def _times(factor: float) -> str:
    return f"{factor:.3g} times"


def brief(q: Qualification, *, unicode: bool = True) -> list[tuple[str, str]]:
    """(name with its sign, what it says) for the terminal; three that know nothing share a line."""
    found = checks_of(q)
    if found and all(sign(one) is UNKNOWN for one in found):
        names = ", ".join(one.name for one in found)
        return [("self-checks", f"UNKNOWN: {names}. The whole profile, with our agent at the far end, looks at them")]
    return [(_head(one, unicode), _said(one)) for one in found]


def _head(one: SelfCheck, unicode: bool) -> str:
    shown = sign(one)
    return f"{shown.symbol if unicode else shown.ascii_symbol} {one.name}"


def _said(one: SelfCheck) -> str:
    because = one.because
    if because.startswith(_SEEN):
        because = f"{_SEEN} ({', '.join(dict.fromkeys(what for what, _ in one.evidence))})"
    settle = f". To settle it: {one.settle}" if sign(one) is UNKNOWN and one.settle else ""
    return f"{sign(one).word}: {because}{settle}"
