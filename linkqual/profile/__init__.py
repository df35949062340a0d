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
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from linkqual.errors import InputError
from linkqual.metrics import METRICS, Metric, quantile
from linkqual.model import Direction, Objective, Profile
from linkqual.profile.limits import ALLOWED, IDEAL, NONE, Limit
from linkqual.profile.limits import parse as parse_limit
from linkqual.profile.lint import lint, rank_of
from linkqual.profile.probe_settings import read_probes
from linkqual.session.marking import wanted_values
from linkqual.settings import Complaints, Listing, Section, boolean, choice, read_tree, real, text
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
    probes = read_probes(section, tuple(dict.fromkeys(METRICS[one.objective.metric].probe for one in read)))
    _contradictions(read, complaints)
    _probes_needed(read, probes, complaints)
    section.close()
    complaints.raise_any()
    objectives = tuple(one.objective for one in read)
    return Profile(profile_name, title or profile_name, purpose, objectives, probes, name, lint(objectives))


def _name(value: str) -> str:
    if not re.fullmatch(r"[\w.\- ]{1,80}", value):
        raise InputError(f"{value!r} is no name of a profile", "letters, digits, '-', '_', '.' and spaces, at most 80")
    return value


# ---- objectives


@dataclass(frozen=True, slots=True)
class _Read:
    """An objective with where it stands: its line and its place in the list ("objectives#3")."""

    objective: Objective
    limit: Limit
    line: int
    place: str


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
            found += [_Read(objective, limit, item.line, inner.path) for objective, limit in _objective(inner)]
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
    limit = section.get("limit", partial(parse_limit, unit=metric.unit), None, True, ALLOWED[metric.unit])
    confidence = section.get("confidence", _confidence, 0.95)
    required = section.get("required", boolean, True)
    burst = section.get("assumed_burst", _burst, 1.0)
    if limit is not None and limit.fact == IDEAL and metric.name != "burst_completion":
        section.complain("limit", f"{metric.name} has no ideal", "only burst_completion has one")
    if metric.name != "loss_ratio" and section.has("assumed_burst"):
        section.complain("assumed_burst", f"{metric.name} has none", "only with loss_ratio")
    source = section.get("source", text, "")
    if limit is None or statistic is None:
        return []
    if metric.unit == "marking" and limit.text != NONE:
        section.get("limit", partial(wanted_values, statistic=statistic), None)  # names of the right kind
    if not source and limit.text != NONE:
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
    words = section.get_list("direction", partial(_direction, metric), only_one)
    if not words:
        if not section.has("direction"):
            section.complain("direction", "is missing", _allowed_directions(metric))
        return metric.directions[:1]
    found = [direction for word in words for direction in (_BOTH if word == "both" else (Direction(word),))]
    if len(set(found)) < len(found):
        section.complain("direction", "names a direction twice", "each once")
    return tuple(dict.fromkeys(found))


def _direction(metric: Metric, value: str) -> str:
    if value == "both" and set(_BOTH) <= set(metric.directions):
        return value
    if value not in set(metric.directions):
        raise InputError(f"{metric.name} has no direction {value!r}", _allowed_directions(metric))
    return value


def _allowed_directions(metric: Metric) -> str:
    both = ("both",) if set(_BOTH) <= set(metric.directions) else ()
    return ", ".join((*metric.directions, *both))


def _confidence(value: str) -> float:
    try:
        ratio = parse_ratio(value)
    except InputError:
        ratio = 0.0
    if not 0.5 < ratio < 1:
        raise InputError(f"{value!r} is no confidence", "more than 50 % and less than 100 %, such as 95 %")
    return ratio


_burst = real(1, 1e6, "mean size of a loss event", "1 to 1000000 packets")


# ---- contradictions


def _contradictions(read: list[_Read], complaints: Complaints) -> None:
    """Two red lines of one key; and limits of one metric that fall while the quantile rises."""
    first: dict[str, _Read] = {}
    by_basis: dict[tuple[str, str, str | None], list[tuple[float, float, _Read]]] = {}
    for one in read:
        key, limit = one.objective.key, one.limit
        if key in first:
            complaints.add(
                one.line, one.place, f"{key} is judged twice, first in line {first[key].line}", "one limit each"
            )
            continue
        first[key] = one
        size = limit.factor if limit.fact else limit.value
        rank = rank_of(one.objective.statistic)
        if size is not None and rank is not None:
            basis = (one.objective.metric, str(one.objective.direction), limit.fact)
            by_basis.setdefault(basis, []).append((rank, size, one))
    for group in by_basis.values():
        group.sort(key=lambda entry: entry[0])
        for (_, low_size, low), (_, size, high) in pairwise(group):
            if size < low_size:
                complaints.add(high.line, high.place, *_falling(low.objective, high.objective))


def _falling(low: Objective, high: Objective) -> tuple[str, str]:
    """The complaint: "... the limit of p99 (10 ms) lies below that of p50 (12 ms)", and what is allowed."""
    return (
        f"{high.metric}/{high.direction}: the limit of {high.statistic} ({high.limit_text}) "
        f"lies below that of {low.statistic} ({low.limit_text})",
        f"a limit of {high.statistic} at or above that of {low.statistic}",
    )


def _probes_needed(read: list[_Read], probes: dict[str, dict[str, object]], complaints: Complaints) -> None:
    for place, one in {one.place: one for one in read}.items():
        probe = METRICS[one.objective.metric].probe
        if probe not in probes:
            named = ", ".join(probes) or "none"
            complaints.add(
                one.line,
                place,
                f"{one.objective.metric} needs the probe {probe}, probes names {named}",
                f"'{probe}:' below probes",
            )
