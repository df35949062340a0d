"""Findings as CSV, then what was measured beside them: one row each, base units (ns, bit/s, ratio), for a spreadsheet or a script."""

from __future__ import annotations

import csv
from io import StringIO

from linkqual.model import Qualification
from linkqual.reports.inert import inert
from linkqual.reports.sheet_facts import facts
from linkqual.reports.wording import among_lost, findings_of, unit_of

COLUMNS = (
    "run", "line", "metric", "statistic", "direction", "required", "outcome", "value", "low", "high", "confidence",
    "unit", "relation", "limit", "n", "rule", "because", "decide", "source",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@")


def render(q: Qualification) -> str:
    """RFC 4180 with a header row; empty cells for what was not measured, `inf` for a quantile among lost packets.

    Rows that are no finding have the outcome "shown".
    """
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for finding in findings_of(q):
        o, e = finding.objective, finding.estimate
        value = "inf" if among_lost(e) else e.value if e else None
        numbers = (value, e.low, e.high, e.confidence) if e else (value, None, None, o.confidence)
        writer.writerow(
            [
                *map(_cell, (q.run, q.plan.link.name, o.metric, o.statistic, str(o.direction))),
                "yes" if o.required else "no",
                str(finding.outcome),
                *numbers,
                unit_of(o),
                str(o.relation),
                o.limit,
                e.n if e else 0,
                str(finding.rule),
                *map(_cell, (finding.because, finding.decide, o.source)),
            ]
        )
    for fact in facts(q):
        head = map(_cell, (q.run, q.plan.link.name, fact.metric, fact.statistic, str(fact.direction)))
        writer.writerow([*head, "", "shown", fact.value, fact.low, fact.high, None, fact.unit, "", None, fact.n, "", *map(_cell, (fact.because, fact.decide, ""))])  # fmt: skip
    return out.getvalue()


def _cell(text: str) -> str:
    """No spreadsheet may take a name for a formula."""
    shown = inert(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
