"""Our own UDP load between the two ends, either way, counted packet by packet. Floor 4.

with loading.opened(bench, Direction.FORWARD, flows=4, longest=1500) as load:
    loaded = load.run(Phase("CIR 50 %", 50_000_000, duration_ns=10 * NS_PER_S))
    loaded.count, loaded.fault
load.near, load.far                 what each end's own sockets dropped
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.model import Direction, EndConditions, Fault, LoadCount
from linkqual.probes.bench import Bench
from linkqual.session.load_phase import Phase


@dataclass(frozen=True, slots=True)
class Loaded:
    """One phase, carried out. `arrivals` (`wire.load.ARRIVAL`: seq, flow, sent_ns, received_ns; in the order they came) where it asked for them."""

    count: LoadCount
    arrivals: npt.NDArray[np.void] | None = None
    fault: Fault | None = None  # why it did not go to its end; what was counted until then is in `count`


class Loading:
    """Load of one direction, opened at both ends. `ports`: source port of each flow."""

    direction: Direction
    ports: tuple[int, ...]
    near: EndConditions
    far: EndConditions

    def run(self, phase: Phase) -> Loaded:
        """Send one phase, wait for its stragglers, rest. Never raises for what line or peer do."""
        raise NotImplementedError


@contextlib.contextmanager
def opened(
    bench: Bench,
    direction: Direction,
    *,
    flows: int = 1,
    longest: int = 1500,
    dscp: int = 0,
    max_rate_bps: int | None = None,
    max_bytes: int | None = None,
) -> Iterator[Loading]:
    """Both ends ready for load in this direction. `longest`: bytes of the longest IP packet; caps are those of the step.

    Raises PeerError and HostError (`bench.fault_of` makes them a Fault) when an end cannot be opened.
    """
    raise NotImplementedError
    yield Any  # pragma: no cover
