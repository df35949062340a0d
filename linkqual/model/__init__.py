"""The central types: what is asked, what was measured, what follows from it. Frozen, slotted, no behaviour beyond arithmetic.

Units are in the names: `_ns` integer nanoseconds, `_bps` bits per second, `_bytes` bytes; instants are UTC nanoseconds of the
end that stamped them. `None` means "did not happen" or "not known"; zero is a measured value. Floor 0, pure, standard library
only, so that `--help` never pays for numpy. Each file holds one theme; everything is imported from here.
"""

from __future__ import annotations

from linkqual.model.asking import (
    FACTS,
    SCHEMA,
    Direction,
    Json,
    LineSegment,
    Link,
    Objective,
    Outcome,
    Plan,
    Profile,
    Relation,
    Rule,
    Service,
    Step,
    family_size,
)
from linkqual.model.bursts import BurstsResult
from linkqual.model.conditions import ClockState, Conditions, EndConditions, Fault, HostFloor
from linkqual.model.demarcation import Evidence, Located, Place
from linkqual.model.load import FlowsResult, LoadCount
from linkqual.model.members import MemberFlow, MembersResult, MemberTrace
from linkqual.model.mtu import MtuHop, MtuResult, MtuTcp, MtuTried, MtuWay
from linkqual.model.narrow import LinkSeen, NarrowResult
from linkqual.model.packets import Burst, ClockStep, Edge, Histogram, LossEvent, Pacing, Segment, Slice, Summary, Tally
from linkqual.model.path import Compared, Hop, LoadedHop, LoadedPath, PathResult, Share, Trace
from linkqual.model.probes import (
    Decision,
    MarkingResult,
    MarkingRow,
    MarkingTrace,
    PingResult,
    StampResult,
)
from linkqual.model.services import FoundRate, SearchResult, ServicesResult, ServiceStep
from linkqual.model.tcp import AddedDelay, ThroughputResult
from linkqual.model.trains import Range, Train, TrainsResult
from linkqual.model.verdicts import (
    SEVERITY,
    Diagnosis,
    Estimate,
    Finding,
    Measurement,
    Note,
    Qualification,
    SelfCheck,
    Verdict,
    worst,
)

__all__ = [
    "FACTS",
    "SCHEMA",
    "SEVERITY",
    "AddedDelay",
    "Burst",
    "BurstsResult",
    "ClockState",
    "ClockStep",
    "Compared",
    "Conditions",
    "Decision",
    "Diagnosis",
    "Direction",
    "Edge",
    "EndConditions",
    "Estimate",
    "Evidence",
    "Fault",
    "Finding",
    "FlowsResult",
    "FoundRate",
    "Histogram",
    "Hop",
    "HostFloor",
    "Json",
    "LineSegment",
    "Link",
    "LinkSeen",
    "LoadCount",
    "LoadedHop",
    "LoadedPath",
    "Located",
    "LossEvent",
    "MarkingResult",
    "MarkingRow",
    "MarkingTrace",
    "Measurement",
    "MemberFlow",
    "MemberTrace",
    "MembersResult",
    "MtuHop",
    "MtuResult",
    "MtuTcp",
    "MtuTried",
    "MtuWay",
    "NarrowResult",
    "Note",
    "Objective",
    "Outcome",
    "Pacing",
    "PathResult",
    "PingResult",
    "Place",
    "Plan",
    "Profile",
    "Qualification",
    "Range",
    "Relation",
    "Rule",
    "SearchResult",
    "Segment",
    "SelfCheck",
    "Service",
    "ServiceStep",
    "ServicesResult",
    "Share",
    "Slice",
    "StampResult",
    "Step",
    "Summary",
    "Tally",
    "ThroughputResult",
    "Trace",
    "Train",
    "TrainsResult",
    "Verdict",
    "family_size",
    "worst",
]
