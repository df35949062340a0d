"""The closing table: a dozen lines that can be read from two metres, one sentence a finding that needs it, the verdict.

Colour is never needed: every outcome is a word and a symbol. `unicode=False` gives pure ASCII, nothing lost.
"""

from __future__ import annotations

from rich.cells import cell_len

from linkqual.model import Outcome, Qualification
from linkqual.reports import (
    accounts,
    brief,
    checks,
    demarcation,
    markings,
    path_text,
    path_view,
    path_words,
    terminal_table,
    timekeeping,
    wording,
)
from linkqual.reports.cells import pad, widths, wrap
from linkqual.reports.terminal_table import COLOURS, Style
from linkqual.units import format_count, format_duration

MINIMUM_WIDTH = 40


def render(
    q: Qualification, width: int = 100, color: bool = False, *, unicode: bool = True, report: str | None = None
) -> str:
    """The whole closing view, lines ended by one newline.

    `width` in columns (at least 40; at 80 and more every finding is one line), `color`: ANSI colours, `unicode`: whether the
    terminal shows more than ASCII, `report`: where the page for the carrier was written.
    """
    style = Style(max(width, MINIMUM_WIDTH), color, unicode)
    blocks = [
        *(
            _head(q, style),
            terminal_table.table(q, style),
            [*_floors(q, style), *_left_out(q, style)],
            _accounts(q, style),
        ),
        *(_markings(q, style), _headed(_loads(q), style), _sentences(q, style), _headed(brief.causes(q), style)),
        *(_headed(demarcation.brief(q), style), _checks(q, style), _notes(q, style), _path(q, style)),
        _banner(q, style),
    ]
    if report:
        blocks.append([f"report   {style.text(report)}"])
    return "\n".join("\n".join(block) + "\n" for block in blocks if block)


def shows_unicode(encoding: str | None) -> bool:
    """Whether a stream of this encoding can carry every sign of the view: what to pass as `unicode`."""
    try:
        "✓✗≤⇄─═µ".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _head(q: Qualification, style: Style) -> list[str]:
    link = q.plan.link
    near, far = wording.ends_words(q)
    utc, zone = wording.moment(q.started_ns), wording.zone_of(q)
    here = f" ({wording.moment(q.started_ns, zone):%H:%M:%S} {q.zone})" if zone else ""
    title = " · ".join(part for part in (link.name, link.vendor, f"{near} → {far}") if part)
    lines = [style.paint(line, "1") for line in wrap(style.text(title), style.width)]
    when = f"{utc:%Y-%m-%d %H:%M:%S} UTC{here} · took {format_duration(q.ended_ns - q.started_ns)} · profile {q.profile.name}"
    lines += wrap(style.text(when), style.width)
    reality = wording.reality(q)
    if reality:
        lines += [style.paint(line, "1;36") for line in wrap(style.text(reality), style.width)]
    return lines


# ---- beside the table


def _loads(q: Qualification) -> list[tuple[str, str]]:
    """What was found beside the red lines; the path in a line or two, where it is not drawn."""
    return [*([] if path_words.about_path(q) else path_words.told(q)), *brief.loads(q)]


def _floors(q: Qualification, style: Style) -> list[str]:
    """What is the hosts' own, beside the delays; and how exactly those are known."""
    texts = timekeeping.floors(q)
    if not texts:
        return []
    for measurement in q.measurements:
        texts += [f"{fact.name} {fact.said}" for fact in timekeeping.facts(measurement)[:2] if fact.said != "not known"]
    return wrap(style.text(f"delays: {'; '.join(dict.fromkeys(texts))}"), style.width, "", "  ")


def _left_out(q: Qualification, style: Style) -> list[str]:
    """Packets that count as received and not in the delays, for want of a stamp of the kernel's."""
    count = sum(measurement.stamp.summary.unstamped for measurement in q.measurements if measurement.stamp)
    if not count:
        return []
    packets = "1 packet is" if count == 1 else f"{format_count(count)} packets are"
    return wrap(style.text(f"{packets} left out of the delays: a stamp of user space"), style.width, "", "  ")


def _accounts(q: Qualification, style: Style) -> list[str]:
    """Where the lost packets went, and how the sender kept its schedule."""
    lines: list[str] = []
    rows = accounts.accounts(q)
    if rows:
        lines.append(style.paint(accounts.TITLE, "2"))
        counts = [format_count(row.packets) for row in rows]
        places = [style.text(row.address) for row in rows]
        for row, count, place in zip(rows, counts, places, strict=True):
            head = f"{pad(count, max(map(len, counts)), right=True)}  {pad(place, max(map(len, places)))}  "
            lines += wrap(style.text(row.because), style.width, head, " " * len(head))
    for measurement in q.measurements:
        said = accounts.short_pacing(measurement.stamp) if measurement.stamp else ""
        lines += wrap(style.text(f"pacing: {said}"), style.width, "", "  ") if said else []
    return lines


def _markings(q: Qualification, style: Style) -> list[str]:
    """Which values arrive, a column a value sent; only where they fit, else the sentences of the findings say it."""
    result = markings.result_of(q)
    if result is None or not result.rows:
        return []
    heads = ["marking", *(f"{wording.ARROWS[way]} {way}" if style.unicode else str(way) for way in markings.WAYS)]
    rows = [[head, *cells] for head, cells in zip(heads, markings.short(result), strict=True)]
    sizes = widths(rows)
    gap = min(3, (style.width - sum(sizes)) // (len(sizes) - 1))
    if gap < 1:
        return []
    first, *others = [(" " * gap).join(map(pad, row, sizes)).rstrip() for row in rows]
    return [style.paint(first, "2"), *others, style.paint(style.text(markings.LEGEND), "2")]


def _checks(q: Qualification, style: Style) -> list[str]:
    return _headed(checks.brief(q, unicode=style.unicode), style)


def _headed(lines: list[tuple[str, str]], style: Style) -> list[str]:
    """A word in front of each, the text beside it."""
    found: list[str] = []
    heads = [style.text(head) for head, _ in lines]
    size = max(map(cell_len, heads), default=0)
    for head, (_, text) in zip(heads, lines, strict=True):
        first = f"{pad(head, size)}  "
        wrapped = wrap(style.text(text), style.width, first, " " * (size + 2))
        found += _painted(wrapped, first, "1", style)
    return found


# ---- sentences


def _sentences(q: Qualification, style: Style) -> list[str]:
    lines: list[str] = []
    drawn = [text for _, text in path_words.told(q)] if path_words.about_path(q) else []
    for remark in wording.remarks(q, (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NO_DATA)):
        if any(remark.because.removeprefix("both ways: ") in text for text in drawn):
            continue  # said beside the drawing
        subject = style.text(remark.subject(len(wording.shown_of(q))))
        head = f"{style.symbol(remark.outcome)} {subject}:" if subject else style.symbol(remark.outcome)
        found = wrap(f"{head} {style.text(remark.because)}", style.width, "", "  ")
        lines += _painted(found, head, f"1;{COLOURS[remark.outcome]}", style)
        if remark.decide:
            lines += wrap(style.text(f"To decide: {remark.decide}"), style.width, "  ", "  ")
    others = wording.apart_words(q)
    if others:
        head = style.symbol(Outcome.NO_DATA)
        lines += _painted(
            wrap(f"{head} {style.text(others)}", style.width, "", "  "), head, f"1;{COLOURS[Outcome.NO_DATA]}", style
        )
    quiet = [f for f in wording.findings_of(q) if f.outcome is Outcome.NOT_JUDGED]
    if quiet:
        names = ", ".join(f"{wording.metric_title(f.objective)} {wording.ARROWS[f.objective.direction]}" for f in quiet)
        means = " ".join(dict.fromkeys(finding.decide for finding in quiet if finding.decide))
        text = f"Shown, not judged (no limit given): {names}. {means}"
        lines += wrap(style.text(text), style.width, f"{style.symbol(Outcome.NOT_JUDGED)} ", "  ")
    return lines


def _painted(lines: list[str], head: str, codes: str, style: Style) -> list[str]:
    first, *rest = lines
    if not first.startswith(head):  # a long one, wrapped
        return [style.paint(first, codes), *rest]
    return [style.paint(head, codes) + first.removeprefix(head), *rest]


def _notes(q: Qualification, style: Style) -> list[str]:
    texts = [f"Cut short: {q.interrupted}."] if q.interrupted else []
    for trouble in wording.troubles(q):
        hint = f" ({trouble.fault.hint})" if trouble.fault.hint else ""
        texts.append(f"{trouble.head}: {trouble.fault.message}{hint}")
    notes = q.verdict.notes if q.verdict else ()
    told = {finding.because for finding in wording.findings_of(q)}  # above, also of advisory red lines
    told |= {one.because for one in checks.checks_of(q)}
    told |= {said for _, said in path_words.told(q)}
    texts += [
        note.sentence
        for note in notes
        if note.weight == "warn" and not any(note.sentence.removeprefix("advisory: ") in said for said in told)
    ]
    lines: list[str] = []
    for text in texts:
        lines += _painted(wrap(style.text(text), style.width, "! ", "  "), "! ", "1;33", style)
    return lines


def _path(q: Qualification, style: Style) -> list[str]:
    """Said and drawn where the run was about nothing else: last, so that a small screen shows it beside the verdict."""
    if not path_words.about_path(q):
        return []
    view = path_view.view(q)
    drawn = path_text.lines(view, style.width, unicode=style.unicode) if view is not None else []
    said = _headed(path_words.told(q), style)
    return [*said, *([""] if drawn and said else []), *drawn]


def _banner(q: Qualification, style: Style) -> list[str]:
    outcome = wording.outcome_of(q)
    word = "  ".join(" ".join(part) for part in wording.SIGNS[outcome].word.split())
    big, said = f"  {style.symbol(outcome)}  {word}", style.text(wording.headline(q))
    fits = cell_len(big) + 3 + cell_len(said) <= style.width
    lines = [f"{big}   {said}"] if fits else [big, *wrap(said, style.width - 1, "     ", "     ")]
    if style.color:
        return [style.paint(pad(line, style.width), f"1;7;{COLOURS[outcome]}") for line in ("", *lines, "")]
    edge = ("═" if style.unicode else "=") * style.width
    return [edge, *lines, edge]
