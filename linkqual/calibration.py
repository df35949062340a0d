"""What this host adds to a round trip all by itself: the very probes of a measurement, between two processes over its loopback. Floor 4.

Kernel stamps leave the wake-ups of our processes out of every delay; what is left of the host is its network stack, its interrupts
and its timers. That floor is measured anew before each run, since it changes with the host's load, and stands beside the delays.

    with Calibration.begin() as running:
        ...                             whatever else needs a second
        floor = running.finish()
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from linkqual.errors import LinkqualError
from linkqual.model import Histogram, HostFloor, Json
from linkqual.net import host
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate
from linkqual.stats import delay
from linkqual.stats.histogram import LogLinear, quantile

if TYPE_CHECKING:
    from linkqual.net.control import Control

LOOPBACK = "127.0.0.1"
PACKETS, RATE = 1000, 1000
_TIMEOUT_NS = 200_000_000
_SSID = 1


@dataclass(slots=True)
class Run:
    """What came of it: round trips, packets by fate, and what both ends of the engine report of themselves."""

    round_trips: Histogram = field(default_factory=Histogram)
    received: int = 0
    lost: int = 0
    near: Json = field(default_factory=dict)
    far: Json = field(default_factory=dict)


class Calibration:
    """One sender and one reflector on the loopback of the calling thread's network namespace."""

    def __init__(self, reflector: Reflector | None, sender: Sender | None, why_not: str = "") -> None:
        self._reflector, self._sender, self.why_not = reflector, sender, why_not

    @classmethod
    def begin(cls, packets: int | None = PACKETS, rate_pps: float = RATE) -> Calibration:
        """Packets leave from now on; as in `SenderConfig`. Never raises: a host without a loopback says so in `finish`."""
        with contextlib.ExitStack() as started:
            try:
                reflector = started.enter_context(
                    Reflector.start(ReflectorConfig(LOOPBACK, LOOPBACK, ssid=_SSID, max_pps=10**7, max_seconds=60))
                )
                sender = Sender.start(
                    SenderConfig(
                        LOOPBACK, reflector.port, ssid=_SSID, packets=packets, rate_pps=rate_pps, timeout_ns=_TIMEOUT_NS,
                        far_buffer_bytes=reflector.receive_buffer_bytes,
                    )
                )  # fmt: skip
            except LinkqualError as error:
                return cls(None, None, f"the probes do not run over this host's loopback: {error.message}")
            started.pop_all()
            return cls(reflector, sender)

    def run(self, interrupted: Callable[[], bool] = lambda: False) -> Run:
        """Everything, when all packets are back. Raises LinkqualError when an end of it dies."""
        assert self._sender is not None
        assert self._reflector is not None
        found, delays = Run(), LogLinear()
        started_ns = self._reflector.counters()["cpu_ns"]
        for rows in self._sender.chunks():
            delays.add(delay.round_trip(rows))
            found.received += int((rows["fate"] == Fate.RECEIVED).sum())
            found.lost += int(np.isin(rows["fate"], [Fate.LOST, Fate.LOST_FORWARD, Fate.LOST_REVERSE]).sum())
            if interrupted():
                self._sender.stop()
        found.near = self._sender.report()
        found.far = self._reflector.stop()["counters"]
        found.far["cpu_ns"] -= started_ns
        found.round_trips = delays.data()
        return found

    def finish(self, interrupted: Callable[[], bool] = lambda: False) -> HostFloor:
        """The floor, or why there is none; ends everything."""
        with self:
            if self._sender is None:
                return HostFloor(why_not=self.why_not)
            try:
                found = self.run(interrupted)
            except LinkqualError as error:
                return HostFloor(why_not=error.message)
        if not found.round_trips.n:
            return HostFloor(why_not="interrupted" if interrupted() else "no probe came back over the loopback")
        return HostFloor(
            n=found.round_trips.n,
            rtt_p50_ns=quantile(found.round_trips, 0.5),
            rtt_p99_ns=quantile(found.round_trips, 0.99),
            rtt_max_ns=found.round_trips.maximum,
            rate_pps=RATE,
            stamps=str(found.near.get("t1_source", "")),
        )

    def close(self) -> None:
        """End both processes; idempotent."""
        for process in (self._sender, self._reflector):
            if process is not None:
                process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def floor() -> HostFloor:
    """Of this host, in a second and a half."""
    return Calibration.begin().finish()


def of_both_ends(
    control: Control | None, interrupted: Callable[[], bool] = lambda: False
) -> tuple[HostFloor, HostFloor | None]:
    """Near and far, at the same time; None where there is no agent. Two ends on one host share its floor."""
    with Calibration.begin() as running:
        far, alone = None, True
        if control is not None:
            try:
                alone = control.call("host").get("boot_id") != host.boot_id()
                far = _read(control.call("calibrate")) if alone else None
            except LinkqualError as error:
                far = HostFloor(why_not=error.message)
        near = running.finish(interrupted)
    return near, far if alone else near


def _read(said: Json) -> HostFloor:
    """The far end's answer. It may be of another version: what is not known here is left out."""
    known = {field.name for field in fields(HostFloor)}
    return HostFloor(**{key: value for key, value in said.items() if key in known})
