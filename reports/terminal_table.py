"""The table of red lines for a terminal: as few columns as it has room for, no number ever cut; below that, one under the other."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model import Direction, Finding, Outcome, Qualification
from linkqual.reports import wording
from linkqual.reports.cells import pad, widths, wrap
from linkqual.reports.inert import inert, plain

COLOURS = {
    Outcome.PASS: "32",
    Outcome.FAIL: "31",
    Outcome.INCONCLUSIVE: "33",
    Outcome.NO_DATA: "35",
    Outcome.NOT_JUDGED: "2",
}
_SHORT = {Direction.FORWARD: "fwd", Direction.REVERSE: "rev", Direction.ROUND_TRIP: "both"}
_LEVELS = ("full", "short", "tight", "close")  # of detail, until a finding fits one line
_KEY = "→ forward   ← reverse   ⇄ round trip   * advisory"
_RIGHT = frozenset({2, 5})  # value and n


@dataclass(frozen=True, slots=True)
class Style:
    """How wide, whether in colour, whether more than ASCII."""

    width: int
    color: bool
    unicode: bool

    def paint(self, text: str, codes: str) -> str:
        """In the colours of SGR `codes`, where colour is wanted."""
        return f"\x1b[{codes}m{text}\x1b[0m" if self.color and codes else text

    def symbol(self, outcome: Outcome) -> str:
        """One cell."""
        sign = wording.SIGNS[outcome]
        return sign.symbol if self.unicode else sign.ascii_symbol

    def text(self, text: str) -> str:
        """Made harmless, and ASCII where the terminal has no more."""
        shown = inert(text)
        return shown if self.unicode else plain(shown)

    @property
    def rule(self) -> str:
        """One cell of a line across."""
        return "─" if self.unicode else "-"


def table(q: Qualification, style: Style) -> list[str]:
    """A line a finding with its head, at the first level of detail that fits; none without a verdict."""
    findings = wording.shown_of(q)
    if not findings:
        return []
    for level in _LEVELS:
        rows = [_heads(findings, level), *(_row(finding, style, level) for finding in findings)]
        rows = [[style.text(cell) for cell in row] for row in rows]
        sizes = widths(rows)
        room = style.width - sum(sizes)
        gap = min(3, room // (len(sizes) - 1))
        if gap >= 1:
            key = [style.paint(style.text(_KEY), "2")] if level in ("tight", "close") else []
            return _lines(rows, sizes, gap, findings, style) + key
    return _stacked(findings, style)


def _heads(findings: tuple[Finding, ...], level: str) -> list[str]:
    confidences = {f.estimate.confidence for f in findings if f.estimate and wording.interval_words(f.estimate)}
    sure = f"{max(confidences) * 100:.4g} % " if len(confidences) == 1 else ""
    return ["metric", "direction" if level == "full" else "", "value", f"{sure}interval", "limit", "n", "outcome"]


def _row(finding: Finding, style: Style, level: str) -> list[str]:
    objective = finding.objective
    arrow = wording.ARROWS[objective.direction]
    word = {"full": str(objective.direction), "short": _SHORT[objective.direction], "tight": "", "close": ""}[level]
    advisory = (
        "" if objective.required else {"full": " (advisory)", "short": " (adv.)", "tight": "*", "close": "*"}[level]
    )
    interval = wording.interval_words(finding.estimate)
    tight = level in ("tight", "close")
    numbers = [
        wording.value_words(finding),
        interval.replace(" … ", "…") if tight else interval,
        wording.limit_words(objective),
        wording.sample_words(finding),
    ]
    if level == "close":
        unit = f" {numbers[0].rpartition(' ')[2]}"  # stands with the value: once is enough
        numbers[1] = numbers[1].removesuffix(unit)
        numbers = [*(_close(number) for number in numbers[:3]), _thousands(numbers[3])]
    return [
        wording.metric_title(objective, short=level != "full"),
        f"{arrow} {word}".rstrip() if style.unicode or not word else word,
        *numbers,
        f"{style.symbol(finding.outcome)} {wording.SIGNS[finding.outcome].word}{advisory}",
    ]


def _close(number: str) -> str:
    """ "≤1.25×" of "≤ 1.25 times"."""
    return number.replace("≤ ", "≤").replace("≥ ", "≥").replace(" times", "×")


def _thousands(count: str) -> str:
    """ "370k" of "369,715"; below ten thousand as it is."""
    return f"{round(int(count.replace(',', '')) / 1000):,}k" if len(count) > len("9,999") else count


def _lines(rows: list[list[str]], sizes: list[int], gap: int, findings: tuple[Finding, ...], style: Style) -> list[str]:
    def line(row: list[str]) -> list[str]:
        return [pad(cell, size, index in _RIGHT) for index, (cell, size) in enumerate(zip(row, sizes, strict=True))]

    between = " " * gap
    lines = [
        style.paint(between.join(line(rows[0])).rstrip(), "2"),
        style.paint(style.rule * (sum(sizes) + gap * (len(sizes) - 1)), "2"),
    ]
    for row, finding in zip(rows[1:], findings, strict=True):
        *cells, outcome = line(row)
        cells[2] = style.paint(cells[2], "1")
        lines.append(between.join([*cells, style.paint(outcome.rstrip(), f"1;{COLOURS[finding.outcome]}")]))
    return lines


def _stacked(findings: tuple[Finding, ...], style: Style) -> list[str]:
    """Too narrow for one line a finding: outcome and metric first, the numbers beneath."""
    lines = []
    for finding in findings:
        metric, direction, value, interval, limit, n, outcome = _row(finding, style, "full")
        head = wrap(style.text(f"{outcome}  {metric}, {direction}"), style.width, "", "  ")
        lines += [style.paint(line, f"1;{COLOURS[finding.outcome]}") for line in head]
        parts = [value, f"({interval})" if interval else "", f"limit {limit}", f"n {n}"]
        lines += wrap(style.text(" ".join(part for part in parts if part)), style.width, "    ", "    ")
    return lines
