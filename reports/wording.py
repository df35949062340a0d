"""The words every report shares: outcomes, directions, metrics, numbers with their interval. One fact, one wording."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from linkqual.metrics import METRICS
from linkqual.model import Direction, Estimate, Fault, Finding, Objective, Outcome, Qualification, Relation, StampResult
from linkqual.plan.sizes import Sizes
from linkqual.rules import apart
from linkqual.rules.estimates import UNDIRECTED
from linkqual.units import NS_PER_S, format_count, format_duration, format_packet_rate, format_rate, format_value


@dataclass(frozen=True, slots=True)
class Sign:
    """How an outcome looks: a word and a symbol always together, so that colour is never needed to tell them apart."""

    word: str
    symbol: str
    ascii_symbol: str
    slug: str


SIGNS: dict[Outcome, Sign] = {
    Outcome.PASS: Sign("PASS", "✓", "+", "pass"),
    Outcome.FAIL: Sign("FAIL", "✗", "x", "fail"),
    Outcome.INCONCLUSIVE: Sign("INCONCLUSIVE", "?", "?", "inconclusive"),
    Outcome.NO_DATA: Sign("NO DATA", "○", "o", "no-data"),
    Outcome.NOT_JUDGED: Sign("NOT JUDGED", "·", "-", "not-judged"),
}
ARROWS: dict[Direction, str] = {Direction.FORWARD: "→", Direction.REVERSE: "←", Direction.ROUND_TRIP: "⇄"}
SHORT_TITLES = {
    "round_trip_delay": "RTT",
    "one_way_delay": "one-way",
    "pdv": "PDV",
    "ipdv": "IPDV",
    "loaded_round_trip_delay": "loaded RTT",
    "loaded_loss_ratio": "loaded loss",
    "added_delay": "added",
    "rate_symmetry": "symmetry",
    "burst_completion": "burst",
    "burst_spread": "burst spread",
    "information_rate": "IR",
    "frame_loss_ratio": "FLR",
    "frame_transfer_delay": "FTD",
    "frame_delay_variation": "FDV",
    "service_availability": "availability",
    "frame_throughput": "frames",
    "member_loss": "path loss",
    "path_mtu": "MTU",
    "mtu_black_hole": "black hole",
    "path_symmetry": "routes",
    "delay_symmetry": "delay difference",
}
# of a metric that has only this one, its name says it
STATISTICS = {
    "ratio": "",
    "size": "",
    "factor": "",
    "cv": "",
    "own": "",
    "difference": "",
    "mean": "mean",
    "min": "minimum",
    "max": "maximum",
}


def unit_of(objective: Objective) -> str:
    """The base unit of its metric; a metric of a newer linkqual has none here."""
    metric = METRICS.get(objective.metric)
    return metric.unit if metric else ""


def metric_title(objective: Objective, short: bool = False) -> str:
    """ "jitter (PDV) p99.9", "loss"; short: "PDV p99.9"."""
    metric = METRICS.get(objective.metric)
    title = metric.title if metric else objective.metric
    if short:
        title = SHORT_TITLES.get(objective.metric, title)
    return f"{title} {STATISTICS.get(objective.statistic, objective.statistic)}".rstrip()


def limit_words(objective: Objective) -> str:
    """ "≤ 12 ms"; "not given" when it depends on a fact of the line nobody gave."""
    if objective.limit is None:
        return "not given"
    if unit_of(objective) in ("marking", "links"):
        return objective.limit_text
    sign = "≤" if objective.relation is Relation.AT_MOST else "≥"
    return f"{sign} {format_value(objective.limit, unit_of(objective))}"


def interval_words(estimate: Estimate | None) -> str:
    """ "11.1–11.4 ms", "≤ 9e-6" (nothing known below), "≥ 9.3 Gbit/s"; "" without an interval."""
    if estimate is None or (estimate.low is None and estimate.high is None):
        return ""
    low, high = _alike(estimate)
    if estimate.low is None or (estimate.unit == "ratio" and not estimate.low):
        return f"≤ {high}"
    if estimate.high is None:
        return f"≥ {low}" if estimate.low > 0 else "no upper bound"
    if low == high:
        return low
    low_number, _, low_unit = low.partition(" ")
    _, _, high_unit = high.partition(" ")
    if low_unit and low_unit == high_unit:
        return f"{low_number}–{high}"
    return f"{low} … {high}"


def _alike(estimate: Estimate) -> tuple[str, str]:
    """Both ends in one notation: two ratios both as powers of ten when one of them must be."""
    low, high = format_value(estimate.low, estimate.unit), format_value(estimate.high, estimate.unit)
    if estimate.unit == "ratio" and estimate.low and estimate.high and low.endswith("%") != high.endswith("%"):
        powers = (f"{end:.2e}".split("e") for end in (estimate.low, estimate.high))
        low, high = (f"{float(mantissa):g}e{int(exponent)}" for mantissa, exponent in powers)
    return low, high


def among_lost(estimate: Estimate | None) -> bool:
    """Whether a quantile falls among lost packets, which count as later than any: it is known to have no bound."""
    return estimate is not None and estimate.value is None and estimate.n > 0


def value_words(finding: Finding) -> str:
    """The measured value, or plainly that there is none."""
    if among_lost(finding.estimate):
        factor = finding.estimate is not None and finding.estimate.unit == "times"
        return "∞ (nothing came through)" if factor else "∞ (lost)"
    if finding.estimate is None or finding.estimate.value is None:
        return "not measured"
    value = format_value(finding.estimate.value, finding.estimate.unit)
    return f"≤ {value}" if UNDIRECTED in finding.estimate.method else value


def sample_words(finding: Finding) -> str:
    """How many packets or seconds stand behind it."""
    return format_count(finding.estimate.n) if finding.estimate and finding.estimate.n else "0"


def outcome_of(qualification: Qualification) -> Outcome:
    """Of the whole; NOT_JUDGED when it was measured only."""
    return qualification.verdict.outcome if qualification.verdict else Outcome.NOT_JUDGED


def findings_of(qualification: Qualification) -> tuple[Finding, ...]:
    """In the order of the profile; none without a verdict."""
    return qualification.verdict.findings if qualification.verdict else ()


def apart_of(qualification: Qualification) -> tuple[Finding, ...]:
    """Those without data because other probes alone were asked for: one sentence says it of them all."""
    if any(m.stamp and m.stamp.far_end != "agent" for m in qualification.measurements):
        return ()  # a reflector that is not ours: each says that it needs our agent
    ran, plan = {m.step.probe for m in qualification.measurements}, qualification.plan
    return tuple(
        one
        for one in findings_of(qualification)
        if one.outcome is Outcome.NO_DATA
        and apart.sits_out(one.objective, plan)
        and METRICS[one.objective.metric].probe not in ran
    )


def shown_of(qualification: Qualification) -> tuple[Finding, ...]:
    """Findings of the probes that were asked for, in the order of the profile."""
    left = apart_of(qualification)
    return tuple(one for one in findings_of(qualification) if one not in left)


def apart_words(qualification: Qualification) -> str:
    """ "24 red lines belong to probes that this run leaves out (stamp): NO DATA"; "" when every probe ran."""
    said = apart.sentence([one.objective for one in apart_of(qualification)])
    return f"{said}: {SIGNS[Outcome.NO_DATA].word}" if said else ""


def headline(qualification: Qualification) -> str:
    """What the verdict means for this line, in one sentence with counts."""
    required = [finding for finding in findings_of(qualification) if finding.objective.required]
    judged = [finding for finding in required if finding.outcome is not Outcome.NOT_JUDGED]
    outcome = outcome_of(qualification)
    if qualification.verdict is None:
        return "measured only, no profile was judged"
    if not judged:
        return f"nothing of profile {qualification.profile.name} could be judged"
    apart_from = apart_of(qualification)
    if all(finding in apart_from for finding in judged):
        return f"none of the {len(judged)} required red lines of profile {qualification.profile.name} belongs to what was measured"
    count = sum(finding.outcome is outcome for finding in judged)
    red_lines = "red line" if len(judged) == 1 else "red lines"
    said = f"{count} of {len(judged)} {red_lines} of profile {qualification.profile.name} {_SAID[outcome]}"
    open_lines = len(required) - len(judged)
    return f"{said}; {open_lines} not judged, no limit given" if open_lines else said


_SAID = {
    Outcome.PASS: "proven kept",
    Outcome.FAIL: "proven broken",
    Outcome.INCONCLUSIVE: "not decided",
    Outcome.NO_DATA: "not measured",
    Outcome.NOT_JUDGED: "not judged",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """One sentence for all findings that share it."""

    findings: tuple[Finding, ...]
    outcome: Outcome
    because: str
    decide: str

    def subject(self, total: int) -> str:
        """ "loss, forward and reverse", "loss, forward; reordered, forward"; all `total` findings are not listed.

        "" when the sentence names its red line itself.
        """
        objective = self.findings[0].objective
        if len(self.findings) == 1 and metric_title(objective) in self.because[: 2 * len(metric_title(objective)) + 20]:
            return ""
        if len(self.findings) == total > 2:
            return f"all {total} red lines"
        directions: dict[str, list[str]] = {}
        for finding in self.findings:
            names = directions.setdefault(metric_title(finding.objective), [])
            if finding.objective.direction is not Direction.ROUND_TRIP:
                names.append(str(finding.objective.direction))
        return "; ".join(", ".join(filter(None, (title, " and ".join(names)))) for title, names in directions.items())


def remarks(qualification: Qualification, outcomes: Iterable[Outcome], *, required: bool = False) -> list[Remark]:
    """The sentences of the findings with these outcomes, equal ones once, in the order of the profile.

    `required`: only of those that decide the verdict.
    """
    groups: dict[tuple[Outcome, str, str], list[Finding]] = {}
    for finding in shown_of(qualification):
        if required and not finding.objective.required:
            continue
        groups.setdefault((finding.outcome, finding.because, finding.decide), []).append(finding)
    wanted = frozenset(outcomes)
    return [Remark(tuple(found), *key) for key, found in groups.items() if key[0] in wanted]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault, and every step it kept from being measured."""

    steps: tuple[str, ...]
    fault: Fault
    partly: bool  # something was measured before

    @property
    def head(self) -> str:
        """What it kept from being measured."""
        steps = ", ".join(self.steps)
        if self.partly and self.fault.kind == "no-way-back":  # nobody could have done better
            return "Measured one way only"  # the fault names the step
        return f"Could not measure {steps}{' to its end' if self.partly else ''}"


def troubles(qualification: Qualification) -> list[Trouble]:
    """What could not be measured (to its end), equal faults once."""
    groups: dict[tuple[Fault, bool], list[str]] = {}
    for measurement in qualification.measurements:
        if measurement.fault:
            groups.setdefault((measurement.fault, measurement.measured), []).append(measurement.step.key)
    return [Trouble(tuple(steps), fault, partly) for (fault, partly), steps in groups.items()]


def packet_sizes(result: StampResult) -> str:
    """ "64 B", or the sizes of a mix with their weights."""
    return Sizes(result.packet_bytes, result.mix).text


def ends_words(qualification: Qualification) -> tuple[str, str]:
    """Names of the near and the far end: as contracted, else as the user reached them."""
    link = qualification.plan.link
    return link.near or "near end", link.far or qualification.peer or "far end"


def reality(qualification: Qualification) -> str:
    """Says plainly when no real circuit was measured; "" for a real one."""
    line = qualification.embedded_line
    if qualification.simulated:
        what = f"the line “{line}”" if line else "a line"
        return f"Simulated: {what} computed in memory under a fake clock. No packet was sent; this says nothing of a real circuit."
    if line is not None:
        return (
            f"Virtual line: real packets crossed the embedded line “{line}”, built inside this host. "
            "This says nothing of a real circuit."
        )
    return ""


def zone_of(qualification: Qualification) -> tzinfo | None:
    """The named zone of the document; None when it is UTC or its name is unknown on this host."""
    if qualification.zone in {"", "UTC", "Etc/UTC"}:
        return None
    try:
        return ZoneInfo(qualification.zone)
    except (KeyError, ValueError, OSError):
        return None


def moment(ns: int, zone: tzinfo = UTC) -> datetime:
    """An instant to the second, in a zone."""
    return datetime.fromtimestamp(ns // NS_PER_S, zone)


def moment_words(ns: int, zone: tzinfo | None = None, fraction: int = 0) -> str:
    """ "2026-11-30 07:17:56" of UTC or of a zone; with `fraction` digits of the second."""
    tail = f".{ns % NS_PER_S:09d}"[: fraction + 1] if fraction else ""
    return f"{moment(ns, zone or UTC):%Y-%m-%d %H:%M:%S}{tail}"


_BY_SUFFIX: dict[str, Callable[[float], str]] = {
    "_ns": format_duration,
    "_bps": format_rate,
    "_pps": format_packet_rate,
    "_bytes": lambda size: f"{format_count(size)} B",
    "_seconds": lambda seconds: format_duration(seconds * NS_PER_S),
}


def readable_name(name: str) -> str:
    """The name of a setting or counter without its unit: "timeout" of "timeout_ns"."""
    for suffix in _BY_SUFFIX:
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def named_value(name: str, value: Any) -> str:
    """A setting or counter whose name ends in its unit."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        words = next((words for suffix, words in _BY_SUFFIX.items() if name.endswith(suffix)), None)
        return words(value) if words else f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(named_value(name, item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{readable_name(key)} {named_value(key, item)}" for key, item in value.items())
    return str(value)
