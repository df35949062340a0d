"""What came of each step, what follows from it, and the one document. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkqual.model.asking import Direction, Json, Objective, Outcome, Plan, Profile, Rule, Step
from linkqual.model.bursts import BurstsResult
from linkqual.model.conditions import Conditions, Fault
from linkqual.model.demarcation import Located, Place
from linkqual.model.load import FlowsResult
from linkqual.model.members import MembersResult
from linkqual.model.mtu import MtuResult
from linkqual.model.narrow import NarrowResult
from linkqual.model.path import LoadedPath, PathResult
from linkqual.model.probes import MarkingResult, PingResult, StampResult
from linkqual.model.services import SearchResult, ServicesResult
from linkqual.model.tcp import ThroughputResult
from linkqual.model.trains import TrainsResult

RESULTS = (
    *("stamp", "ping", "throughput", "throughput_back", "path", "marking"),
    *("services", "search", "trains", "flows", "bursts", "bursts_back", "mtu", "members", "narrow", "loaded_path"),
)  # the fields of a Measurement that hold one


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one step. Exactly one result, or a fault, or both (cut short); neither when it was `not_needed`."""

    step: Step
    started_ns: int
    elapsed_ns: int
    stamp: StampResult | None = None
    ping: PingResult | None = None
    throughput: ThroughputResult | None = None
    throughput_back: ThroughputResult | None = None  # the reverse direction of a step that loads both at once
    path: PathResult | None = None
    marking: MarkingResult | None = None
    services: ServicesResult | None = None
    search: SearchResult | None = None
    trains: TrainsResult | None = None
    flows: FlowsResult | None = None
    bursts: BurstsResult | None = None  # forward
    bursts_back: BurstsResult | None = None  # reverse, at the same time
    mtu: MtuResult | None = None
    members: MembersResult | None = None
    narrow: NarrowResult | None = None
    loaded_path: LoadedPath | None = (
        None  # a result of its own, or the by-product of a load (forward, where it loads both ways)
    )
    loaded_path_back: LoadedPath | None = None
    conditions: Conditions = field(default_factory=Conditions)
    fault: Fault | None = None
    not_needed: str = ""  # why a step that only explains was not carried out

    @property
    def measured(self) -> bool:
        """Whether there is a result, whole or cut short."""
        return any(getattr(self, name) is not None for name in RESULTS)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number as every report prints it."""

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    n: int
    unit: str  # "ns", "bit/s", "ratio", "ns" ...
    method: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An objective, what was found, and why it means what it means."""

    objective: Objective
    outcome: Outcome
    because: str  # one sentence with numbers
    estimate: Estimate | None = None
    decide: str = ""  # what would decide it (INCONCLUSIVE, NO DATA)
    rule: Rule = Rule.NONE
    step: str = ""  # key of the step it comes from


@dataclass(frozen=True, slots=True)
class Note:
    """Something a reader should know that is no red line: an asymmetry, a host limit, a cross-check that differs."""

    kind: str  # "path", "ping", "host", "clock", "asymmetry", "throughput", "loss", "marking", "simulated"
    sentence: str
    weight: str = "info"  # info | warn


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a direction carries what it carries. `cause` "none": none of those looked for explains it."""

    direction: Direction
    cause: str  # "policer", "shaper", "per-flow cap", "hashing", "window", "loss", "host", "overhead", "none"
    confidence: str  # "high", "medium", "low"
    sentence: str  # the cause with its numbers
    evidence: tuple[tuple[str, str], ...] = ()  # (what was looked at, what it showed)
    against: tuple[tuple[str, str], ...] = ()  # causes that were looked for and do not fit, each with why
    decide: str = ""  # what to do next, or what would settle it
    because: str = ""  # why the confidence is what it is
    subject: str = "line"  # what falls short: the "line" (however many flows), or one "flow" where many carry more


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """A question on the topology that every line is asked. UNKNOWN is no PASS, and fails no line."""

    name: str
    outcome: str  # "PASS", "FAIL", "UNKNOWN"
    because: str
    evidence: tuple[tuple[str, str], ...] = ()  # (what was looked at, what it showed)
    settle: str = ""  # what would settle it


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst required finding wins."""

    outcome: Outcome
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...] = ()
    family: str = ""  # how errors were controlled over all red lines together
    diagnoses: tuple[Diagnosis, ...] = ()
    checks: tuple[SelfCheck, ...] = ()
    places: tuple[Place, ...] = ()  # what either end's egress and the middle carry
    demarcation: tuple[Located, ...] = ()  # faults by the part of the line they lie in


@dataclass(frozen=True, slots=True)
class Qualification:
    """The one document. Everything a report shows is in it or recomputed from the run folder beside it."""

    schema: int
    linkqual_version: str
    run: str  # name of the run
    started_ns: int
    ended_ns: int
    profile: Profile
    plan: Plan
    peer: str  # as the user gave it, or "embedded line clean"
    measurements: tuple[Measurement, ...]
    verdict: Verdict | None = None
    embedded_line: str | None = None  # name of the virtual line; None: a real peer
    simulated: bool = False  # made in memory under a fake clock
    interrupted: str = ""  # why the run ended early
    zone: str = "UTC"  # IANA zone in which times are shown beside UTC
    truth: dict[str, Json] = field(default_factory=dict)  # of a virtual line: its own counters


SEVERITY = (Outcome.NOT_JUDGED, Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.NO_DATA, Outcome.FAIL)


def worst(outcomes: list[Outcome]) -> Outcome:
    """The outcome that decides; NO DATA when nothing was judged at all."""
    judged = [outcome for outcome in outcomes if outcome is not Outcome.NOT_JUDGED]
    return max(judged, key=SEVERITY.index) if judged else Outcome.NO_DATA
