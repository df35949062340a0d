"""Which hop is asked when, while a line is idle and while it is loaded, and what its answers say of either state: pure. Floor 2.

    round 1, at once and idle    TTL 1 2 3 ...      then one probe a hop every 1.1 s, hops in turn: the load meets a round spread
    load                         1 . 2 . 3 . 1 . 2 . 3 . ...                                     over all of its time

A router makes about one ICMP error a second for each address it answers (Linux: icmp_ratelimit 1000), so none is asked more often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from linkqual.model import Direction, LoadedHop, Measurement, Trace

ROUND_NS = 1_100_000_000
AT_ONCE_NS = 15_000_000  # between the probes of the first round
PATIENCE_NS = 1_000_000_000  # an answer that has not come by then counts as lost
FILLING_NS = 1_500_000_000  # after a load began: its queue is not full yet
ROUNDS_KEPT = 4  # after so many rounds a probe's number is given out again


@dataclass(frozen=True, slots=True)
class Known:
    """The flow of one direction that is watched, and its hops as the idle line showed them. `reached`: the last one is the far end."""

    source_port: int
    destination_port: int
    hops: tuple[LoadedHop, ...]
    reached: bool = True

    @property
    def ttls(self) -> tuple[int, ...]:
        """Of the hops that answer: a silent one is not asked again."""
        return tuple(hop.ttl for hop in self.hops if hop.address is not None)


@dataclass(frozen=True, slots=True)
class Asked:
    """One probe. Instants in ns since the watch began; `rtt_ns` None: no answer."""

    ttl: int
    sent_ns: int
    rtt_ns: int | None = None
    address: str = ""  # who answered


@dataclass(frozen=True, slots=True)
class Span:
    """One load, in ns since the watch began: under way from `begins_ns`, to be counted from `counts_ns` to `ends_ns`."""

    begins_ns: int
    counts_ns: int
    ends_ns: int


def of_trace(trace: Trace) -> Known:
    """What a trace on the idle line found."""
    hops = tuple(LoadedHop(hop.ttl, hop.address, hop.sent, hop.rtt_ns) for hop in trace.hops)
    return Known(trace.source_port, trace.destination_port, hops, bool(trace.hops) and trace.hops[-1].reached)


def known(measurements: Sequence[Measurement]) -> dict[Direction, Known]:
    """Both directions of the traced flow, with all that loads have seen of the idle line before they began."""
    found: dict[Direction, Known] = {}
    for one in measurements:
        if one.path is not None:
            traces = ((Direction.FORWARD, one.path.forward), (Direction.REVERSE, one.path.reverse))
            found |= {way: of_trace(trace) for way, trace in traces if any(hop.address for hop in trace.hops)}
        for path in (one.loaded_path, one.loaded_path_back):
            same = (
                path is not None and path.direction in found and _ttls(path.hops) == _ttls(found[path.direction].hops)
            )
            if path is not None and same:
                found[path.direction] = replace(found[path.direction], hops=_idle(path.hops))
    return found


def schedule(ttls: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """TTL, instant (ns since the beginning) and number of each probe, for ever."""
    count, index = len(ttls), 0
    while count:
        around, place = divmod(index, count)
        due = place * AT_ONCE_NS if not around else around * ROUND_NS + place * ROUND_NS // count
        yield ttls[place], due, (around % ROUNDS_KEPT) * count + place
        index += 1


def seen(before: Known, asked: Sequence[Asked], spans: Sequence[Span], ended_ns: int) -> tuple[LoadedHop, ...]:
    """The hops with what this watch adds: idle until the first load, loaded inside the spans.

    An answer from another address than the trace's says that the path has changed: it counts as neither. Of the probes still
    under way at the end (`ended_ns`) those count that were answered.
    """
    first_ns = min((span.begins_ns for span in spans), default=ended_ns)
    quiet: dict[int, list[int | None]] = {ttl: [] for ttl in before.ttls}
    busy: dict[int, list[int | None]] = {ttl: [] for ttl in before.ttls}
    addresses = {hop.ttl: hop.address for hop in before.hops}
    for one in asked:
        known_place = one.ttl in quiet and (one.rtt_ns is None or one.address == addresses[one.ttl])
        if not known_place or (one.rtt_ns is None and one.sent_ns + PATIENCE_NS > ended_ns):
            continue
        if one.sent_ns + (PATIENCE_NS if one.rtt_ns is None else one.rtt_ns) < first_ns:
            quiet[one.ttl].append(one.rtt_ns)
        elif any(span.counts_ns <= one.sent_ns < span.ends_ns for span in spans):
            busy[one.ttl].append(one.rtt_ns)
    return tuple(_more(hop, quiet.get(hop.ttl, []), busy.get(hop.ttl, [])) for hop in before.hops)


def _more(hop: LoadedHop, quiet: Sequence[int | None], busy: Sequence[int | None]) -> LoadedHop:
    return replace(
        hop,
        idle_sent=hop.idle_sent + len(quiet),
        idle_ns=hop.idle_ns + tuple(rtt for rtt in quiet if rtt is not None),
        loaded_sent=len(busy),
        loaded_ns=tuple(rtt for rtt in busy if rtt is not None),
    )


def _ttls(hops: Sequence[LoadedHop]) -> list[int]:
    return [hop.ttl for hop in hops]


def _idle(hops: Sequence[LoadedHop]) -> tuple[LoadedHop, ...]:
    return tuple(replace(hop, loaded_sent=0, loaded_ns=()) for hop in hops)
