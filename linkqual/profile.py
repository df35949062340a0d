"""Profiles: a yardstick in YAML -> `model.Profile`, with every complaint in one go, each with its file, line and key.

    name: my-line
    title: What it is for
    objectives:
      - {metric: loss_ratio, direction: [forward, reverse], limit: 1e-5, source: the contract, section 4}
      - {metric: round_trip_delay, statistic: p99, limit: 1.2 x rtt_budget, source: the contract, section 5}
    probes:
      stamp: {rate: 20 kpps, packets: 2_000_000}
      ping:

Floor 2, pure: the caller reads the file.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from linkqual import limits
from linkqual.errors import InputError
from linkqual.limits import Limit
from linkqual.metrics import METRICS, Metric, quantile
from linkqual.model import Direction, Objective, Profile
from linkqual.probe_settings import read_probes
from linkqual.settings import Complaints, Listing, Section, boolean, choice, read_tree, text
from linkqual.units import parse_ratio

HINT = "mend these lines; `linkqual profiles` lists the shipped profiles to compare with"
_BOTH = (Direction.FORWARD, Direction.REVERSE)
_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,6})?)\Z")


def parse(source: str, name: str) -> Profile:
    """The profile in `source` (text of a YAML file called `name`); InputError lists everything that is wrong with it."""
    complaints = Complaints(name, HINT)
    section = Section(read_tree(source, complaints), "", complaints)
    title = section.get("title", text, "")
    profile_name = section.get("name", _name, "", required=True)
    purpose = section.get("purpose", text, "")
    read = _objectives(section)
    probes = read_probes(section, tuple(dict.fromkeys(METRICS[one.metric].probe for one, _, _ in read)))
    _contradictions(read, complaints)
    _probes_needed(read, probes, complaints)
    section.close()
    complaints.raise_any()
    objectives = tuple(objective for objective, _, _ in read)
    return Profile(profile_name, title or profile_name, purpose, objectives, probes, name, _lint(objectives))


def _name(value: str) -> str:
    if not re.fullmatch(r"[\w.\- ]{1,80}", value):
        raise InputError(f"{value!r} is no name of a profile", "letters, digits, '-', '_', '.' and spaces, at most 80")
    return value


# ---- objectives


_Read = tuple[Objective, Limit, int]  # and the line it stands in


def _objectives(section: Section) -> list[_Read]:
    node = section.raw("objectives")
    if not isinstance(node, Listing) or not node.items:
        problem = "is missing" if node is None else "is no list" if not isinstance(node, Listing) else "is empty"
        section.complain("objectives", problem, "a list of red lines, each '- metric: ...'")
        return []
    found: list[_Read] = []
    for number, item in enumerate(node.items, 1):
        inner = section.as_section(item, f"objectives#{number}")
        if inner is not None:
            found += [(objective, limit, item.line) for objective, limit in _objective(inner)]
            inner.close()
    return found


def _objective(section: Section) -> list[tuple[Objective, Limit]]:
    metric = METRICS.get(section.get("metric", choice(*METRICS), "", required=True))
    if metric is None:  # the rest cannot be judged; the known keys are named so that they are not complained of
        for key in ("statistic", "direction", "limit", "confidence", "required", "assumed_burst", "source"):
            section.has(key)
        return []
    statistic = _statistic(section, metric)
    directions = _directions(section, metric)
    limit = section.get("limit", lambda value: limits.parse(value, metric.unit), None, required=True)
    confidence = section.get("confidence", _confidence, 0.95)
    required = section.get("required", boolean, True)
    burst = section.get("assumed_burst", _burst, 1.0)
    if metric.name != "loss_ratio" and section.has("assumed_burst"):
        section.complain("assumed_burst", f"{metric.name} has none", "only with loss_ratio")
    source = section.get("source", text, "")
    if limit is None or statistic is None:
        return []
    if not source and limit.text != limits.NONE:
        section.complain("source", "is missing: a limit names where it comes from", "a clause, a contract, a reasoning")
    base = Objective(
        metric=metric.name,
        statistic=statistic,
        direction=directions[0],
        limit=None if limit.fact else limit.value,
        relation=metric.relation,
        confidence=confidence,
        required=required,
        source=source,
        limit_text=limit.text,
        assumed_burst=burst,
    )
    return [(replace(base, direction=direction), limit) for direction in directions]


def _statistic(section: Section, metric: Metric) -> str | None:
    allowed = ", ".join((*(("p50", "p99", "p99.9") if metric.quantiles else ()), *metric.statistics))
    if metric.quantiles:
        allowed += " (any quantile between p0 and p100)"

    def read(value: str) -> str:
        match = _QUANTILE.match(value)
        if metric.quantiles and match and quantile(value) is not None:
            return f"p{float(match[1]):g}"
        if value not in metric.statistics:
            raise InputError(f"{metric.name} has no statistic {value!r}", allowed)
        return value

    if not metric.quantiles and len(metric.statistics) == 1:
        return section.get("statistic", read, metric.statistics[0])
    if not section.has("statistic"):
        section.complain("statistic", "is missing", allowed)
        return None
    return section.get("statistic", read, None)


def _directions(section: Section, metric: Metric) -> tuple[Direction, ...]:
    only_one: tuple[str, ...] = metric.directions[:1] if len(metric.directions) == 1 else ()
    words: tuple[str, ...] = section.get_list("direction", choice("both", *metric.directions), only_one)
    if not words:
        if not section.has("direction"):
            section.complain("direction", "is missing", ", ".join((*metric.directions, "both")))
        return metric.directions[:1]
    found = [direction for word in words for direction in (_BOTH if word == "both" else (Direction(word),))]
    if len(set(found)) < len(found):
        section.complain("direction", "names a direction twice", "each once")
    if not set(found) <= set(metric.directions):
        section.complain("direction", f"{metric.name} has no forward and reverse", ", ".join(metric.directions))
        return metric.directions[:1]
    return tuple(dict.fromkeys(found))


def _confidence(value: str) -> float:
    ratio = parse_ratio(value)
    if not 0.5 < ratio < 1:
        raise InputError(f"{value!r} is no confidence", "more than 50 % and less than 100 %, such as 95 %")
    return ratio


def _burst(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 1 <= number <= 1e6:
        raise InputError(f"{value!r} is no mean size of a loss event", "1 to 1000000 packets")
    return number


# ---- contradictions and style


def _contradictions(read: list[_Read], complaints: Complaints) -> None:
    """Two red lines of one key; and limits of one metric that fall while the quantile rises."""
    first: dict[str, int] = {}
    by_basis: dict[tuple[str, str, str | None], list[tuple[float, float, Objective, int]]] = {}
    for objective, limit, line in read:
        if objective.key in first:
            where = first[objective.key]
            complaints.add(
                line, "objectives", f"{objective.key} is judged twice, first in line {where}", "one limit each"
            )
            continue
        first[objective.key] = line
        size = limit.factor if limit.fact else limit.value
        rank = _rank(objective.statistic)
        if size is not None and rank is not None:
            basis = (objective.metric, str(objective.direction), limit.fact)
            by_basis.setdefault(basis, []).append((rank, size, objective, line))
    for group in by_basis.values():
        group.sort(key=lambda entry: entry[0])
        for (_, low_size, low, _), (_, size, high, line) in pairwise(group):
            if size < low_size:
                name = f"{high.metric}/{high.direction}"
                complaints.add(
                    line,
                    "objectives",
                    f"{name}: the limit of {high.statistic} ({high.limit_text}) lies below that of {low.statistic} ({low.limit_text})",
                    f"a limit of {high.statistic} at or above that of {low.statistic}",
                )


def _rank(statistic: str) -> float | None:
    return {"min": -1.0, "max": 2.0}.get(statistic, quantile(statistic))


def _probes_needed(read: list[_Read], probes: dict[str, dict[str, object]], complaints: Complaints) -> None:
    for objective, _, line in read:
        probe = METRICS[objective.metric].probe
        if probe not in probes:
            named = ", ".join(probes) or "none"
            complaints.add(
                line, "objectives", f"{objective.metric} is measured by {probe}, which is not under probes ({named})"
            )


def _lint(objectives: tuple[Objective, ...]) -> tuple[str, ...]:
    """What a careful reader would remark: no error, but likely not what is meant."""
    notes = []
    delays = [one for one in objectives if METRICS[one.metric].unit == "ns"]
    judged = [one for one in objectives if one.limit is not None or one.limit_text != limits.NONE]
    tails = [one for one in delays if (_rank(one.statistic) or 0) >= 0.99 and one in judged]
    if delays and not tails:
        notes.append(
            "no tail metric: a median or mean hides the slow packets a step or a token waits for; add p99 or p99.9"
        )
    if not delays:
        notes.append("no delay or jitter is judged: throughput and loss alone do not describe a line")
    for metric in ("loss_ratio", "throughput"):
        one_sided = {one.direction for one in judged if one.metric == metric} & set(_BOTH)
        if len(one_sided) == 1:
            notes.append(f"{metric} is judged {one_sided.pop()} only: the other direction may differ")
    notes += [
        f"{one.key}: a {one.statistic} of a sample proves nothing about other packets; a quantile can be proven"
        for one in judged
        if one.statistic in {"max", "min", "mean"}
    ]
    if not any(one.required for one in judged):
        notes.append("nothing required has a limit: no line can fail this profile")
    return tuple(notes)
