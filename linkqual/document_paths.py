"""What reports and rules take for granted of the hops in a document, said of one that was damaged or edited. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from itertools import pairwise

from linkqual import link_segments
from linkqual.document import DAMAGED
from linkqual.errors import InputError
from linkqual.model import Hop, LoadedPath, Measurement, Qualification

MOST = 255  # hops: a TTL has eight bits
CONFIDENCES = ("", "low", "medium", "high")
BY = ("", "queue", "loss", "train")


def check(document: Qualification) -> None:
    """InputError where addresses are none, hops are out of order or beyond any TTL, or a place of the link file is none."""
    for number, taken in enumerate(document.measurements):
        where = f"measurements[{number}]"
        _traces(taken, f"{where}.path")
        for name, loaded in (("loaded_path", taken.loaded_path), ("loaded_path_back", taken.loaded_path_back)):
            if loaded is not None:
                _loaded(loaded, f"{where}.{name}")
        _numbers(_counted(taken), where)
    for number, segment in enumerate(document.plan.link.segments):
        for text in (segment.start, segment.end):
            try:
                link_segments.place(text)
            except InputError as error:
                raise InputError(error.message, DAMAGED, f"plan.link.segments[{number}]") from None


def _traces(taken: Measurement, where: str) -> None:
    path = taken.path
    if path is not None:
        for trace in (path.forward, path.reverse):
            _addresses((trace.source, trace.destination), where)
            _hops(trace.hops, where)
    members = taken.members.traces if taken.members is not None else ()
    for flow in (*(path.flows if path else ()), *(path.flows_back if path else ()), *members):
        _addresses(flow.hops, where if path else where.replace(".path", ".members"))
        _numbers((len(flow.hops) or 1,), where)


def _hops(hops: Sequence[Hop], where: str) -> None:
    _ascending([hop.ttl for hop in hops], where)
    for hop in hops:
        _addresses((hop.address, hop.egress, *hop.others), where)
        _expect(
            0 <= hop.received <= hop.sent or not hop.sent, f"hop {hop.ttl} received {hop.received} of {hop.sent}", where
        )
    _expect(not any(hop.reached for hop in hops[:-1]), "a hop that is the far end has others behind it", where)


def _loaded(found: LoadedPath, where: str) -> None:
    ttls = [hop.ttl for hop in found.hops]
    _ascending(ttls, where)
    _addresses((hop.address for hop in found.hops), where)
    _expect(found.confidence in CONFIDENCES, f"{found.confidence!r} is no confidence", where)
    _expect(found.by in BY, f"{found.by!r} is nothing a place is told by", where)
    if found.by:
        after, before = found.after, found.before
        inside = after is not None and before is not None and 0 <= after < before <= MOST
        _expect(inside, f"{after} and {before} are no two hops one behind the other", where)
        _expect(found.by != "queue" or before in ttls, f"hop {before} was not asked", where)


def _counted(taken: Measurement) -> Iterable[int]:
    """Numbers of hops and links that something is counted up to."""
    for way in taken.mtu.ways if taken.mtu is not None else ():
        yield from (hop.ttl for hop in way.hops)
        yield way.reached_ttl or 1
    if taken.narrow is not None:
        named = (taken.narrow.links, taken.narrow.named, *taken.narrow.narrow)
        yield from (number or 1 for number in (*named, *(one.number for one in taken.narrow.seen)))


def _numbers(numbers: Iterable[int], where: str) -> None:
    for number in numbers:
        _expect(1 <= number <= MOST, f"{number} is the number of no hop", where)


def _ascending(ttls: Sequence[int], where: str) -> None:
    _numbers(ttls, where)
    _expect(all(one < other for one, other in pairwise(ttls)), "hops are out of order", where)


def _addresses(found: Iterable[str | None], where: str) -> None:
    """ "": an end's own is not known."""
    for address in filter(None, found):
        try:
            ip_address(address)
        except ValueError:
            raise InputError(f"{address!r} is no IP address", DAMAGED, where) from None


def _expect(fits: bool, message: str, where: str) -> None:
    if not fits:
        raise InputError(message, DAMAGED, where)
