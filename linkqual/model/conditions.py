"""Under which conditions a number was taken, and why one could not be. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClockState:
    """What one end knows of its clock. `error_ns`: bound of its offset to UTC, None: unknown."""

    source: str = "unknown"  # chrony, systemd-timesyncd, ptp4l, kernel, none, unknown
    synchronised: bool = False
    error_ns: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HostFloor:
    """What a host adds to a round trip all by itself: probes between two processes of it, over its loopback (`calibration`)."""

    n: int = 0
    rtt_p50_ns: int | None = None
    rtt_p99_ns: int | None = None
    rtt_max_ns: int | None = None
    rate_pps: float = 0.0
    stamps: str = ""  # where T1 of these probes came from, as in `EndConditions.stamps`
    why_not: str = ""  # not measured


@dataclass(frozen=True, slots=True)
class EndConditions:
    """One end of the measurement: who, with what, and what its host dropped by itself."""

    host: str = ""
    platform: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    clock: ClockState = field(default_factory=ClockState)
    stamps: dict[str, str] = field(default_factory=dict)  # "T1" -> "kernel", "user", "hardware", or shares of them
    receive_buffer_bytes: int | None = None
    drops: dict[str, int] = field(default_factory=dict)  # counter -> increase during the step
    notes: tuple[str, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)  # of the probe's own process: packets by what became of them
    drop_times: tuple[
        tuple[int, str, int], ...
    ] = ()  # when `drops` rose: (read at, UTC of that end; counter; increase)
    clock_before: ClockState | None = None  # before the step; `clock` is after it
    clock_stepped_ns: int | None = None  # by which its clock was set during the step; None: not told
    floor: HostFloor | None = None  # None: not asked for
    slot_bps: int | None = None  # what the PCIe slot of the card towards the peer carries one way; None: not known


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which conditions a number was taken."""

    near: EndConditions = field(default_factory=EndConditions)
    far: EndConditions = field(default_factory=EndConditions)
    clock_error_ns: int | None = (
        None  # bound of the offset between both clocks; None: not known, one-way delay not absolute
    )
    same_clock: bool = False  # both ends on one host: the offset is zero by construction


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a step could not be measured (or not to its end). The other steps go on."""

    kind: str  # "unreachable", "refused", "missing-program", "no-capability", "interrupted", "peer-lost", "host-overload", ...
    message: str
    hint: str = ""
