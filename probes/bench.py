"""What a probe is given besides its step: the two ends, where to put raw data, how to tell of progress. Floor 4."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from linkqual.errors import InputError, LinkqualError, PeerError
from linkqual.model import Direction, Fault, HostFloor, Link, Objective, Step
from linkqual.units import NS_PER_S

if TYPE_CHECKING:
    from linkqual.net.control import Control
    from linkqual.records import Records
    from linkqual.session.hop_watch import Known


_LOOK_NS = NS_PER_S // 10


def fault_of(error: LinkqualError, kind: str = "host") -> Fault:
    """What an error makes of a step. The far end's own words have their kind; `kind` is for what this host lacks."""
    if isinstance(error, PeerError):
        kind = error.kind
    elif isinstance(error, InputError):  # an answer that is none
        kind = "damaged-output"
    return Fault(kind, error.message, error.hint)


def duty_of(step: Step) -> float:
    """The share of the time a load may last, 0 to 1; 1: no rests between its pulses."""
    return float(step.params.get("duty", 1.0))


def rest(bench: Bench, loaded_ns: int, duty: float) -> bool:
    """Silence after a load of `loaded_ns`, so long that both together keep the share `duty` (0 to 1) of load.

    False when the run is to end or the far end is gone; looked at ten times a second.
    """
    until = time.monotonic_ns() + (round(loaded_ns * (1 / duty - 1)) if 0 < duty < 1 else 0)
    while not bench.interrupted() and not (bench.control and bench.control.lost()):
        left = until - time.monotonic_ns()
        if left <= 0:
            return True
        time.sleep(min(left, _LOOK_NS) / NS_PER_S)
    return False


def silent(bench: Bench, for_ns: int) -> bool:
    """Silence of so long; False when the run is to end or the far end is gone."""
    return rest(bench, for_ns, 0.5)  # as after a load of that length which may last half of the time


def ended(bench: Bench, what: str, between: str) -> Fault:
    """Why a silence was not kept. `what` was interrupted and what is kept of it, in words; `between` which two loads it was."""
    if bench.interrupted():
        return Fault("interrupted", what)
    return Fault("peer-lost", f"the far end was lost between two {between}", "see whether the line is up and run again")


@dataclass(frozen=True, slots=True)
class Progress:
    """One line about a running step: what, how far, how many losses so far, how long still."""

    phase: str
    done: int = 0
    total: int | None = None
    unit: str = "packets"
    lost: int | None = None
    left_ns: int | None = None
    text: str = ""


class PacketWriter(Protocol):
    """Takes settled packet records in chunks; `close` seals the file."""

    def write(self, records: Records) -> None: ...

    def close(self) -> None: ...


class _NoPackets:
    def write(self, records: Records) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Reflector:
    """A STAMP or TWAMP-Light reflector that is not ours. `key`: of authenticated mode, empty without."""

    port: int
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Bench:
    """The two ends of a measurement. Every callback may be left out: the probe then measures without keeping or telling."""

    peer_address: str
    near_address: str = ""  # "": let the kernel choose
    family: int = socket.AF_INET
    control: Control | None = None
    reflector: Reflector | None = None  # what answers at the far end where there is no agent
    objectives: tuple[Objective, ...] = ()
    link: Link = field(default_factory=Link)
    one_clock: bool = True  # both ends run on one host
    hops: Mapping[Direction, Known] = field(default_factory=dict)  # of the traced flow, as the idle line showed them
    near_floor: HostFloor | None = None  # what each host adds by itself (`calibration`), where that was asked for
    far_floor: HostFloor | None = None
    family_size: int = 1  # red lines judged together (Bonferroni on the FAIL side)
    save_raw: Callable[[str, str | bytes], None] = lambda _name, _data: None
    save_packets: Callable[[str], PacketWriter] = lambda _step: _NoPackets()
    progress: Callable[[Progress], None] = lambda _progress: None
    interrupted: Callable[[], bool] = lambda: False
