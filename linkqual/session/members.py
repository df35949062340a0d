"""Do flows that differ by a port alone fare differently? Which ones, how sure is it, and on how large a part of the paths?

    loss    flows are divided in two by likelihood in all rounds but the last; the last one, which had no part in the choice, must show
            the same by Fisher's exact test, else nothing is said
    delay   flows are divided at the widest gap of the first quarter; in every later quarter all slow ones must again lie above all
            others, by more than the quarters differ among themselves

Floor 2, pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy import special

from linkqual.model import MemberFlow, MembersResult
from linkqual.stats.confidence import ratio_interval, ratio_upper

METRIC = "member_loss"
CONFIDENCE = 0.95
SURE = 1e-3  # chance that flows which fare alike would be divided so in the last round
BELONGS = 0.99  # probability that a flow is one of those it is counted with
LEAST_APART_NS = 50_000  # what hosts do to single packets
APART = 5.0  # times what quarters of one flow differ by
MOST_MEMBERS = 16  # a path is looked for that carries at least such a part of the flows
FOUND = 0.99


@dataclass(frozen=True, slots=True)
class Group:
    """Flows that fare worse than the others in one respect. Ratios are (value, low, high) at CONFIDENCE; ports are those of the near end."""

    kind: str  # "loss", "path" (longer by its least delay) or "queue" (by its median delay alone)
    ports: tuple[int, ...]
    flows: int  # all that were looked at
    share: tuple[float, float, float]  # of the flows
    chance: float  # that flows which fare alike would show this
    loss: tuple[float, float, float] | None = None  # of its flows
    others: tuple[float, float, float] | None = None  # loss of the other flows
    unclear: tuple[int, ...] = ()  # flows that may belong to either
    excess_ns: int | None = None  # by which its median flow is slower than the median one of the others

    @property
    def paths(self) -> int:
        """The number of equal paths of which `bad` carry about that share: 4 for 15 of 64 flows, and for 49."""
        return max(2, round(1 / max(min(self.share[0], 1 - self.share[0]), 1e-9)))

    @property
    def among(self) -> tuple[int, int]:
        """The fewest and the most paths of which one can carry that share, or all but one."""
        low, high = sorted(min(bound, 1 - bound) for bound in self.share[1:]) if self.share[1] > 0.5 else self.share[1:]
        return max(2, math.ceil(1 / high - 1e-9)), max(2, math.floor(1 / max(low, 1e-9) + 1e-9))

    @property
    def bad(self) -> int:
        """One of `paths`, or all but one."""
        return 1 if self.share[0] <= 0.5 else self.paths - 1


@dataclass(frozen=True, slots=True)
class Found:
    """`average` and `worst`: loss of all flows, and the upper bound of the worst part that one path in MOST_MEMBERS may carry."""

    groups: tuple[Group, ...]
    average: float
    worst: float
    lost: int
    sent: int

    @property
    def silent(self) -> bool:
        """Whether nothing arrived: flows that all fare so tell nothing of single paths."""
        return self.lost == self.sent

    @property
    def excess(self) -> float:
        """By how much more one path may lose than all do: an upper bound, whether or not flows differ."""
        return max(0.0, self.worst - self.average)


def read(result: MembersResult) -> Found:
    """What the flows of one direction say."""
    flows = [flow for flow in result.flows if flow.sent]
    sent, lost = sum(flow.sent for flow in flows), sum(flow.lost for flow in flows)
    groups: list[Group] = []
    if len(flows) >= 4:
        lossy = None if result.host_lost else _lossy(flows)
        groups += [lossy] if lossy else []
        longer = _slow(flows, "path", [flow.least_ns for flow in flows])
        queued = None if longer else _slow(flows, "queue", [flow.median_ns for flow in flows])
        groups += [one for one in (longer, queued) if one]
    return Found(tuple(groups), lost / sent if sent else 0.0, _worst(flows), lost, sent)


def missed(paths: int, bad: int = 1) -> float:
    """Chance that a test over one flow never meets the bad ones of so many paths."""
    return 1 - bad / paths


def flows_needed(paths: int, bad: int = 1, found: float = FOUND) -> int:
    """Flows of which, with that probability, at least one takes a bad path: 17 for one of 4, 35 for one of 8."""
    return math.ceil(math.log(1 - found) / math.log(missed(paths, bad)))


def unsettled(result: MembersResult, limit: float | None = None) -> bool:
    """Whether more packets may tell more: some were lost, and it is not yet clear by whom; or the `limit` of the excess is not yet proven kept."""
    found = read(result)
    if result.host_lost:
        return False
    lossy = next((group for group in found.groups if group.kind == "loss"), None)
    if lossy is None and limit is not None and found.excess > limit:
        return True
    return found.lost >= 2 and (lossy is None or bool(lossy.unclear))


def proving(flows: int, limit: float) -> int:
    """Packets of each flow that prove the limit of the excess where none is lost, at least 1."""
    count = max(1, flows // MOST_MEMBERS)
    return max(1, math.ceil(math.log((1 - CONFIDENCE) / MOST_MEMBERS) / math.log1p(-limit) / count))


# ---- loss


def _worst(flows: Sequence[MemberFlow]) -> float:
    """Upper bound of the loss of a path with one part in MOST_MEMBERS of the flows, looked for among all such parts."""
    count = max(1, len(flows) // MOST_MEMBERS)
    worst = sorted(flows, key=lambda flow: -flow.lost / flow.sent)[:count]
    sent = sum(flow.sent for flow in worst)
    return ratio_upper(sum(flow.lost for flow in worst), sent, 1 - (1 - CONFIDENCE) / MOST_MEMBERS) if sent else 1.0


def _lossy(flows: Sequence[MemberFlow]) -> Group | None:
    rounds = min(len(flow.rounds) for flow in flows)
    if rounds < 2:
        return None
    before = [_counted(flow, range(rounds - 1)) for flow in flows]
    last = [_counted(flow, range(rounds - 1, rounds)) for flow in flows]
    chosen = _divided(before)
    if not chosen:
        return None
    chance = _alike(last, chosen)
    if chance > SURE:
        return None
    every = [(flow.lost, flow.sent) for flow in flows]
    bad = _divided(every) or chosen
    certain, unclear = _belonging(every, bad)
    rest = [one for at, one in enumerate(every) if at not in bad and at not in unclear]
    return Group(
        kind="loss",
        ports=tuple(sorted(flows[at].near_port for at in certain)),
        flows=len(flows),
        share=_ratio(len(certain), len(flows)),
        chance=chance,
        loss=_ratio(sum(every[at][0] for at in certain), sum(every[at][1] for at in certain)),
        others=_ratio(sum(lost for lost, _ in rest), sum(sent for _, sent in rest)),
        unclear=tuple(sorted(flows[at].near_port for at in unclear)),
    )


def _counted(flow: MemberFlow, rounds: range) -> tuple[int, int]:
    """(lost, sent)."""
    some = [flow.rounds[at] for at in rounds]
    return sum(sent - received for sent, received in some), sum(sent for sent, _ in some)


def _divided(counts: Sequence[tuple[int, int]]) -> frozenset[int]:
    """The places of the flows with more loss, where dividing them in two explains the counts best; empty where all are alike."""
    order = sorted(range(len(counts)), key=lambda at: -counts[at][0] / max(1, counts[at][1]))
    all_lost, all_sent = sum(lost for lost, _ in counts), sum(sent for _, sent in counts)
    best, at_best = _likelihood(all_lost, all_sent), 0
    lost = sent = 0
    for number, at in enumerate(order[:-1], 1):
        lost, sent = lost + counts[at][0], sent + counts[at][1]
        found = _likelihood(lost, sent) + _likelihood(all_lost - lost, all_sent - sent)
        if found > best + 1e-9:
            best, at_best = found, number
    return frozenset(order[:at_best])


def _likelihood(lost: int, sent: int) -> float:
    """Logarithm of the likelihood of a binomial count at its own ratio, but for the coefficient."""
    ratio = lost / sent if sent else 0.0
    return float(special.xlogy(lost, ratio) + special.xlog1py(sent - lost, -ratio))


def _alike(counts: Sequence[tuple[int, int]], chosen: frozenset[int]) -> float:
    """Chance that the chosen flows lost so much or more, were all packets alike: Fisher's exact test, one-sided."""
    lost, sent = (sum(counts[at][part] for at in chosen) for part in (0, 1))
    all_lost, all_sent = (sum(one[part] for one in counts) for part in (0, 1))
    most = min(all_lost, sent)
    if lost <= 0 or not sent:
        return 1.0
    logs = [
        _log_ways(sent, count) + _log_ways(all_sent - sent, all_lost - count) - _log_ways(all_sent, all_lost)
        for count in range(lost, most + 1)
        if all_lost - count <= all_sent - sent
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))


def _log_ways(of: int, chosen: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)


def _belonging(counts: Sequence[tuple[int, int]], bad: frozenset[int]) -> tuple[list[int], list[int]]:
    """(flows that are of the bad ones, flows that may be of either), by the posterior of two binomials."""
    lost, sent = (sum(counts[at][part] for at in bad) for part in (0, 1))
    all_lost, all_sent = (sum(one[part] for one in counts) for part in (0, 1))
    high = (lost + 0.5) / (sent + 1)
    low = (all_lost - lost + 0.5) / (all_sent - sent + 1)
    prior = math.log(len(bad) / (len(counts) - len(bad)))
    certain, unclear = [], []
    for at, (mine, of) in enumerate(counts):
        odds = prior + mine * math.log(high / low) + (of - mine) * (math.log1p(-high) - math.log1p(-low))
        probability = float(special.expit(odds))
        if probability >= BELONGS:
            certain.append(at)
        elif probability > 1 - BELONGS:
            unclear.append(at)
    return certain, unclear


def _ratio(count: int, of: int) -> tuple[float, float, float]:
    low, high = ratio_interval(count, of, CONFIDENCE) if of else (0.0, 1.0)
    return (count / of if of else 0.0), low, high


# ---- delay


def _slow(flows: Sequence[MemberFlow], kind: str, quarters: Sequence[tuple[int | None, ...]]) -> Group | None:
    count = min(map(len, quarters))
    known = [at for at, mine in enumerate(quarters) if count >= 2 and None not in mine[:count]]
    if len(known) < 4:
        return None
    table = [[int(quarters[at][quarter] or 0) for at in known] for quarter in range(count)]
    chosen = _above_gap(table[0])
    least = max(LEAST_APART_NS, APART * _unsteady(table))
    for values in table:
        slow = [value for at, value in enumerate(values) if at in chosen]
        rest = [value for at, value in enumerate(values) if at not in chosen]
        if min(slow) - max(rest) < least:
            return None
    chance = math.comb(len(known), len(chosen)) ** (1 - count)
    if chance > SURE:  # so few flows lie in any order often enough
        return None
    excess = [
        _median([values[at] for at in chosen]) - _median([value for at, value in enumerate(values) if at not in chosen])
        for values in table
    ]
    return Group(
        kind=kind,
        ports=tuple(sorted(flows[known[at]].near_port for at in chosen)),
        flows=len(known),
        share=_ratio(len(chosen), len(known)),
        chance=chance,
        excess_ns=_median(excess),
    )


def _above_gap(values: Sequence[int]) -> frozenset[int]:
    """Places of the values above the widest gap."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    gaps = [values[after] - values[before] for before, after in pairwise(order)]
    return frozenset(order[gaps.index(max(gaps)) + 1 :])


def _unsteady(table: Sequence[Sequence[int]]) -> float:
    """By how much a flow moves against the others from quarter to quarter: the median of all flows and quarters, in ns."""
    moved = []
    for one, other in pairwise(table):
        steps = [b - a for a, b in zip(one, other, strict=True)]
        middle = _median(steps)
        moved += [abs(step - middle) for step in steps]
    return _median(moved)


def _median(values: Sequence[int]) -> int:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]
