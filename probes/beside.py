"""A STAMP stream beside a load: what delay and loss become while the line is busy. Floor 4.

    with beside.running(bench, step, rate_pps=500) as stream:      the stream runs, and what it looked like idle is known
        with stream.loaded():
            ...                                                    packets that leave meanwhile count as under load
    stream.result()                                                a StampResult of those; `added`: against the idle ones

The packets are taken in a thread, and the caller does its loading in its own; both ask the agent over one control channel. With
`idle_ns=0` there is no look before and nothing to compare with, and without `loaded` every packet counts.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from linkqual.errors import LinkqualError
from linkqual.model import Direction, EndConditions, Fault, Histogram, StampResult, Step
from linkqual.net.clock import utc_ns
from linkqual.net.sender import Sender
from linkqual.probes.backlog import Backlog
from linkqual.probes.bench import Bench, fault_of
from linkqual.probes.stamp import near_conditions
from linkqual.probes.streams import AgentStream, Stream, far_fault
from linkqual.records import ABSENT
from linkqual.rules import loaded
from linkqual.stats.added import Added
from linkqual.stats.query import losses
from linkqual.units import NS_PER_S

if TYPE_CHECKING:
    from linkqual.model import AddedDelay
    from linkqual.records import Records

PACKET_BYTES = 64  # UDP payload: all four stamps and nothing more
TIMEOUT_NS = 3 * NS_PER_S // 2
IDLE_NS = NS_PER_S // 2
DRAIN_NS = NS_PER_S // 2  # after a load, before packets count as idle again
SILENCE_NS, QUIET_S = NS_PER_S, 2.0  # with the packets still in flight: a cut line is told within five seconds
MARGIN_S = 30  # for what comes before and after the load
TICK_S = 0.02
_TELLING = 100  # packets: fewer do not tell a line that loses one in twenty from one that loses none
_NEVER_NS = 2**62
_NONE = Fault("no-agent", "delay and loss under load need our agent at the far end", "start `linkqual agent` there")


@dataclass(slots=True)
class _Span:
    """One load, UTC of the near end: packets count from `counts_ns` to `ends_ns`, which a load under way may still move."""

    begins_ns: int
    counts_ns: int
    ends_ns: int
    over_ns: int = _NEVER_NS  # the load has ended, and what it left in queues begins to drain


@dataclass(slots=True, kw_only=True)
class _Marked(AgentStream):
    """Counts its packets by what the line was doing when they left."""

    added: Added
    spans: list[_Span] = field(default_factory=list)
    every: bool = True  # nothing was marked: every packet counts

    def count(self, rows: Records) -> None:
        """See Stream."""
        if self.every:
            AgentStream.count(self, rows)
            return
        left = np.where(rows["sent_ns"] == ABSENT, rows["intended_ns"], rows["sent_ns"])
        spans = list(self.spans)
        busy = np.zeros(len(rows), np.bool_)
        for span in spans:
            busy |= (left >= span.counts_ns) & (left < span.ends_ns)
        self.added.before(rows[left < spans[0].begins_ns] if spans else rows)
        self.added.loaded(rows[busy])
        AgentStream.count(self, rows[busy])
        if spans:
            self.added.after(rows[left >= spans[-1].over_ns + DRAIN_NS])


class Beside:
    """The stream, or why there is none: a load is measured either way."""

    def __init__(self, fault: Fault | None = None, stream: _Marked | None = None, sender: Sender | None = None) -> None:
        self._fault, self._stream, self._sender = fault, stream, sender
        self._made: StampResult | None = None
        self.near, self.far = EndConditions(), EndConditions()  # what the stream's own sockets say, after the end
        self._thread = threading.Thread(target=self._consume, name="beside", daemon=True)
        if sender is not None:
            self._thread.start()

    @property
    def fault(self) -> Fault | None:
        """Why it does not go on."""
        return self._stream.fault if self._stream is not None and self._stream.fault is not None else self._fault

    @contextlib.contextmanager
    def loaded(self, after_ns: int = 0, until_ns: int | None = None) -> Iterator[None]:
        """The line is loaded inside; `after_ns`, `until_ns` from now: when what counts begins and ends at most."""
        now = utc_ns()
        span = _Span(now, now + after_ns, _NEVER_NS if until_ns is None else now + until_ns)
        if self._stream is not None:
            self._stream.spans.append(span)
        try:
            yield
        finally:
            span.over_ns = utc_ns()
            span.ends_ns = max(span.counts_ns, min(span.ends_ns, span.over_ns))

    def result(self) -> StampResult | None:
        """Packets under load; None before the end, without a stream, or when none left under load."""
        return self._made

    def added(self) -> dict[str, AddedDelay]:
        """What the load added to one-way delay, by direction."""
        return self._stream.added.data() if self._stream is not None and self._made is not None else {}

    def lost(self, direction: Direction) -> float | None:
        """The share of packets under load that a direction lost, those of unknown direction with them, 0 to 1; None: too few to tell."""
        summary = self._made.summary if self._made is not None else None
        if summary is None or summary.sent < _TELLING:
            return None
        return losses(summary, direction) / summary.sent

    def idle_round_trip(self) -> Histogram:
        """Before the load."""
        return self._stream.added.idle_round_trip() if self._stream is not None else Histogram()

    def _consume(self) -> None:
        assert self._sender is not None
        assert self._stream is not None
        try:
            for rows in Backlog(self._sender.chunks()):
                self._stream.take(rows)
                if self._stream.fault is not None:
                    self._sender.stop()
        except LinkqualError as error:
            self._fault = far_fault(error)

    @property
    def runs(self) -> bool:
        """Whether packets are on their way."""
        return self._thread.is_alive()

    def end(self, params: dict[str, Any]) -> None:
        """Stop sending, settle what is in flight, make the result."""
        if self._sender is None or self._stream is None:
            return
        self._sender.stop()
        self._thread.join()
        report = self._sender.report()
        if report["ended_by"] == "refused" and self._stream.fault is None:
            self._stream.fault = self._stream.refused()
        far = self._stream.finish()
        self.near, self.far = near_conditions(report), self._stream.far_conditions(far, report)
        summary = self._stream.summarizer.summary()
        if summary.sent:
            self._made = StampResult(
                summary=summary,
                rate_pps=report.get("rate_pps") or float(params["rate_pps"]),
                packet_bytes=params["packet_bytes"],
                far_end=self._stream.kind,
                timeout_ns=params["timeout_ns"],
                dscp=params["dscp"],
                lateness=report.get("lateness", Histogram()),
                blocked_ns=report.get("blocked_ns", 0),
                stopped_by="fixed length",
                family=self._stream.bench.family_size,
            )


@contextlib.contextmanager
def running(
    bench: Bench,
    step: Step,
    *,
    rate_pps: float,
    packet_bytes: int = PACKET_BYTES,
    dscp: int = 0,
    idle_ns: int = 0,
) -> Iterator[Beside]:
    """A stream for as long as the block lasts; `rate_pps` 0: none. Never raises for what line or peer do: see `Beside.fault`.

    `step`: what it runs beside, for how long at most. `idle_ns`: how long it runs before the block begins and, between two
    clocks, after it ends and the queues have drained; packets then count only inside `loaded`.
    """
    params = {"rate_pps": rate_pps, "packet_bytes": packet_bytes, "dscp": dscp, "timeout_ns": TIMEOUT_NS}
    found = _begin(bench, replace(step, probe="stamp", params=params, packets=None), every=not idle_ns)
    try:
        _wait(bench, found, idle_ns)
        yield found
        if idle_ns and not bench.one_clock:
            _wait(bench, found, DRAIN_NS + idle_ns)
    finally:
        found.end(params)


def _begin(bench: Bench, step: Step, *, every: bool) -> Beside:
    if not step.params["rate_pps"]:
        return Beside()
    if bench.control is None:
        return Beside(_NONE)
    on_stream = tuple(loaded.on_stream(one) for one in bench.objectives if one.metric in loaded.STREAM)
    quiet = Bench(
        bench.peer_address,
        bench.near_address,
        bench.family,
        bench.control,
        objectives=on_stream,
        family_size=bench.family_size,
    )
    asked = {key: step.params[key] for key in ("rate_pps", "packet_bytes")}
    try:
        opened = bench.control.call("stamp.open", **asked, seconds=step.duration_ns / NS_PER_S + MARGIN_S)
    except LinkqualError as error:
        return Beside(far_fault(error))
    stream = _Marked(
        **Stream.common(step, quiet), control=bench.control, opened=opened, silence_ns=SILENCE_NS, quiet_s=QUIET_S,
        added=Added(bench.objectives), every=every,
    )  # fmt: skip
    try:
        return Beside(None, stream, Sender.start(stream.settings()))
    except LinkqualError as error:
        stream.finish()
        return Beside(fault_of(error))


def _wait(bench: Bench, found: Beside, for_ns: int) -> None:
    """While packets run and nothing ends them."""
    until = time.monotonic_ns() + for_ns
    while found.fault is None and found.runs and not bench.interrupted() and time.monotonic_ns() < until:
        time.sleep(TICK_S)
