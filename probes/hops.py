"""Asks the hops of the traced flow beside a load, from the end that sends it: where the load's queue begins. Floor 4.

with hops.watching(bench, Direction.FORWARD, seconds=60) as watch:     idle until
    with watch.loaded(after_ns, until_ns):
        ...                                                           probes that leave meanwhile count as under load
watch.result("16 streams of TCP", added_ns=...)                        a LoadedPath, or None without a trace to go by
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from linkqual.errors import LinkqualError, PeerError
from linkqual.model import Direction, LoadedPath
from linkqual.net.hop_watch import HopWatch
from linkqual.net.trace import Target
from linkqual.probes.bench import Bench
from linkqual.session.hop_watch import FILLING_NS, Asked, Known, Span, seen
from linkqual.session.loaded_path import locate
from linkqual.wire import hops_json

_Stop = Callable[[], tuple[list[Asked], int]]


@dataclass(slots=True)
class Watching:
    """A watch under way, or why there is none: a load is measured either way."""

    direction: Direction
    known: Known | None = None
    problem: str = ""
    began_ns: int = 0  # of this host's monotonic clock
    asked: list[Asked] = field(default_factory=list)
    ended_ns: int = 0
    spans: list[Span] = field(default_factory=list)

    @contextlib.contextmanager
    def loaded(self, after_ns: int = FILLING_NS, until_ns: int | None = None) -> Iterator[None]:
        """The line is loaded inside; `after_ns`, `until_ns` from now: when what counts begins and ends at most."""
        begins = time.monotonic_ns() - self.began_ns
        try:
            yield
        finally:
            ends = time.monotonic_ns() - self.began_ns
            until = ends if until_ns is None else min(ends, begins + until_ns)
            self.spans.append(Span(begins, begins + max(after_ns, FILLING_NS), until))

    def result(
        self,
        load: str,
        *,
        added_ns: int | None = None,
        lost: float | None = None,
        weak: str = "",
        lost_only: bool = False,
        cut: bool = False,
    ) -> LoadedPath | None:
        """What the load showed, once the watch is over. See `session.loaded_path.locate`. `cut`: a fault ended it, which loses probes as well."""
        if self.known is None:
            return None
        if self.problem:
            return LoadedPath(self.direction, load, because=f"the hops were not asked beside the load: {self.problem}")
        found = seen(self.known, self.asked, self.spans, self.ended_ns)
        place = locate(
            self.direction,
            load,
            found,
            reached=self.known.reached,
            added_ns=added_ns,
            lost=lost,
            weak=weak,
            lost_only=lost_only,
        )
        if not cut or place.by != "loss":
            return place
        return LoadedPath(
            self.direction, load, found, because="the load was cut short, so probes that were lost tell nothing"
        )


@contextlib.contextmanager
def watching(bench: Bench, direction: Direction, *, seconds: float, base: int = 0, tos: int = 0) -> Iterator[Watching]:
    """From here to the end of the block, `seconds` at most. Without a trace of this direction, or of a load both ways, nothing is asked.

    `base`: octets more than the least in each probe; `tos`: TOS or Traffic Class of them. Never raises for what line or peer do: see
    `Watching.problem`.
    """
    found = Watching(direction, bench.hops.get(direction))
    if found.known is None or not found.known.ttls or bench.control is None:
        yield replace(found, known=None)
        return
    with contextlib.ExitStack() as stack:
        try:
            end = _near if direction is Direction.FORWARD else _far
            stop = end(bench, found.known, stack, seconds, base, tos)
        except (LinkqualError, OSError) as error:
            found.problem = _said(error)
            yield found
            return
        found.began_ns = time.monotonic_ns()
        try:
            yield found
        finally:
            try:
                found.asked, found.ended_ns = stop()
            except LinkqualError as error:
                found.problem = _said(error)


def _near(bench: Bench, known: Known, stack: contextlib.ExitStack, seconds: float, base: int, tos: int) -> _Stop:
    """Probes from here; the agent's port answers, as it did to the trace, or its kernel says that nobody does."""
    assert bench.control is not None
    port: dict[str, Any] = {"port": known.destination_port}
    for asked in (port | {"seconds": math.ceil(seconds)}, port):  # older agents know a minute only
        with contextlib.suppress(LinkqualError):
            bench.control.call("trace.target", **asked)
            break
    watch = HopWatch(
        bench.peer_address, known.source_port, known.destination_port, known.ttls, bench.family, bench.near_address,
        seconds=seconds, base=base, tos=tos,
    )  # fmt: skip
    stack.callback(watch.stop)
    return watch.stop


def _far(bench: Bench, known: Known, stack: contextlib.ExitStack, seconds: float, base: int, tos: int) -> _Stop:
    """Probes from the agent; a port here answers meanwhile."""
    control = bench.control
    assert control is not None
    stack.enter_context(
        Target(bench.near_address, known.destination_port, bench.peer_address, bench.family, seconds=seconds)
    )
    marked: dict[str, Any] = {"tos": tos} if tos else {}  # else agents that know no such argument serve it too
    try:
        control.call(
            "hops.open",
            source_port=known.source_port,
            destination_port=known.destination_port,
            ttls=list(known.ttls),
            seconds=seconds,
            base=base,
            **marked,
        )
    except PeerError as error:
        if error.kind == "bad-request":  # what an agent says of a request or an argument that it does not know
            raise PeerError("the far end's linkqual is older and asks no hops", "update it", error.kind) from None
        raise

    def stop() -> tuple[list[Asked], int]:
        if control.lost():
            raise PeerError("the far end was lost during the load")
        rows, ended_ns = hops_json.decode(control.call("hops.close", hurried=bench.interrupted))
        return [Asked(*row) for row in rows], ended_ns

    return stop


def _said(error: Exception) -> str:
    if isinstance(error, LinkqualError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"this host: {reason}"
