"""What a probe is given besides its step: the two ends, where to put raw data, how to tell of progress. Floor 4."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from linkqual.errors import InputError, LinkqualError, PeerError
from linkqual.model import Fault, HostFloor, Link, Objective

if TYPE_CHECKING:
    from linkqual.net.control import Control
    from linkqual.records import Records


def fault_of(error: LinkqualError, kind: str = "host") -> Fault:
    """What an error makes of a step. The far end's own words have their kind; `kind` is for what this host lacks."""
    if isinstance(error, PeerError):
        kind = error.kind
    elif isinstance(error, InputError):  # an answer that is none
        kind = "damaged-output"
    return Fault(kind, error.message, error.hint)


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
    near_floor: HostFloor | None = None  # what each host adds by itself (`calibration`), where that was asked for
    far_floor: HostFloor | None = None
    family_size: int = 1  # red lines judged together (Bonferroni on the FAIL side)
    save_raw: Callable[[str, str | bytes], None] = lambda _name, _data: None
    save_packets: Callable[[str], PacketWriter] = lambda _step: _NoPackets()
    progress: Callable[[Progress], None] = lambda _progress: None
    interrupted: Callable[[], bool] = lambda: False
