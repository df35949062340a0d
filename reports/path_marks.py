"""What is known of single links of a direction: what each carries, and what marks it. Taken from every step that tells of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from linkqual.model import Direction, Measurement, MtuWay, NarrowResult
from linkqual.rules import loaded_path
from linkqual.session import mtu
from linkqual.session.narrow_result import DROP
from linkqual.units import format_duration, format_rate, format_size

NARROWEST, TIE, QUEUE, MTU, ALONE = "narrowest", "tie", "queue", "mtu", "alone"
_BEGINS = {"queue": "queue under load", "loss": "loss under load", "train": "narrow part"}
ALONE_WORDS = {Direction.FORWARD: "forward only", Direction.REVERSE: "return only"}


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of a link, as the search for the narrowest hop counts. `exact` False: nothing slower was seen, it may carry more."""

    bps: float
    exact: bool

    @property
    def words(self) -> str:
        """ "200 Mbit/s", "≥ 480 Mbit/s"."""
        return f"{'' if self.exact else '≥ '}{format_rate(round(self.bps))}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something about one link: in two words beside it, and whole for the table."""

    kind: str
    short: str
    said: str


def narrow_of(taken: Sequence[Measurement], way: Direction) -> NarrowResult | None:
    """What the search for the narrowest hop says of this direction."""
    return next((m.narrow for m in taken if m.narrow is not None and m.narrow.direction is way), None)


def crossing(taken: Sequence[Measurement], way: Direction, links: int) -> NarrowResult | None:
    """The same, where its load crossed as many links as are drawn: else no link of it is one of these."""
    found = narrow_of(taken, way)
    return found if found is not None and found.links in (0, links) else None


def capacities(found: NarrowResult) -> dict[int, Capacity]:
    """Of each link something is known of. What a longer part of the way let through, each of its links carries at least."""
    seen = [(one.number, one.rate_bps, one.rate_bps or one.offered_bps) for one in found.seen]
    whole = found.rate_bps[0] if found.rate_bps else None
    if found.links and (whole or found.at_least_bps) and all(number != found.links for number, _, _ in seen):
        seen.append((found.links, whole, whole or found.at_least_bps or 0.0))
    if found.named and whole:  # what went through the narrow link was no faster, whatever the stamps made of it
        seen = [
            (number, rate, min(carried, whole) if number >= found.named else carried) for number, rate, carried in seen
        ]
    seen.sort(key=lambda one: one[0])
    known: dict[int, Capacity] = {}
    for link in range(1, max((number for number, _, _ in seen), default=0) + 1):
        known[link] = Capacity(max(carried for number, _, carried in seen if number >= link), exact=False)
    before, slowest = 0, float("inf")
    for number, rate, carried in seen:
        if rate is not None and rate < (1 - DROP) * slowest:
            if number == before + 1:
                known[number] = Capacity(rate, exact=True)
            slowest = rate
        before, slowest = number, min(slowest, carried)
    if found.named and whole:
        least = Capacity(whole, exact=False)  # the whole way carries that, so each link does
        known = {number: one if one.bps >= whole else least for number, one in known.items()}
        known[found.named] = Capacity(whole, exact=True)
    return known


def marks(
    taken: Sequence[Measurement], way: Direction, links: int, alone: frozenset[int]
) -> dict[int, tuple[Mark, ...]]:
    """By link number, what matters most first."""
    found: dict[int, list[Mark]] = {}
    narrow = crossing(taken, way, links)
    pairs = [*(_of_narrow(narrow) if narrow is not None else ()), *_of_load(taken, way), *_of_mtu(taken, way, links)]
    pairs += [(number, Mark(ALONE, ALONE_WORDS[way], ALONE_WORDS[way])) for number in sorted(alone)]
    for number, mark in pairs:
        if 1 <= number <= links and all(other.short != mark.short for other in found.get(number, ())):
            found.setdefault(number, []).append(mark)
    return {number: tuple(marked) for number, marked in found.items()}


def _of_narrow(found: NarrowResult) -> Iterator[tuple[int, Mark]]:
    for number in found.narrow:
        if number != found.named:
            yield number, Mark(TIE, "nearly as narrow", "nearly as narrow")
    if found.named:
        said = f"narrowest: {found.kind}"
        said += f", bucket {format_size(round(found.bucket_bytes))}" if found.bucket_bytes else ""
        said += f", queue {format_duration(round(found.buffer_ns))}" if found.buffer_ns else ""
        free = f"{format_rate(round(found.free_bps[0]))} free" if found.busy and found.free_bps else ""
        said += f", {free} beside what others send" if free else ""
        unsure = "low confidence" if found.confidence == "low" else ""
        short = ", ".join(part for part in ("narrowest", found.kind, free, unsure) if part)
        yield found.named, Mark(NARROWEST, short, f"{said}; {found.confidence} confidence")


def _of_load(taken: Sequence[Measurement], way: Direction) -> Iterator[tuple[int, Mark]]:
    """All links between the last hop whose answers a load leaves alone and the first one whose answers wait."""
    one = loaded_path.best(taken, way)
    if one is None or not one.by or one.after is None:
        return
    what = _BEGINS.get(one.by, _BEGINS["queue"])
    until = one.before if one.before is not None else one.after + 1
    place = _place(one.after + 1, until)
    said = f"{what} begins {place or 'here'} ({one.load}; {one.confidence} confidence)"
    for number in range(one.after + 1, until + 1):
        yield number, Mark(QUEUE, f"{what}{place and f', {place}'}", said)


def _place(first: int, last: int) -> str:
    """ "on one of links 3 to 4"; "" where it is one link."""
    return f"on one of links {first} to {last}" if last > first else ""


def _of_mtu(taken: Sequence[Measurement], way: Direction, links: int) -> Iterator[tuple[int, Mark]]:
    """Where longer packets end: behind the router that says so, or anywhere between two hops where nobody does."""
    for one in (one for m in taken if m.mtu for one in m.mtu.ways if one.direction is way):
        first, last = _until(one, links)
        if first and one.passes is not None:
            how = "a router says so" if one.kind == "told" else "longer ones vanish"
            place = _place(first, last)
            said = f"packets of more than {one.passes} bytes end {place or 'here'}: {how}"
            for number in range(first, last + 1):
                yield number, Mark(MTU, f"MTU {one.passes}: {how}{place and f', {place}'}", said)


def _until(way: MtuWay, links: int) -> tuple[int, int]:
    """First and last link on which longer packets may end; (0, 0): nothing is known."""
    if way.told_by is not None:
        hop = next((hop.ttl for hop in way.hops if hop.address == way.told_by), None)
        return (hop + 1, hop + 1) if hop is not None else (0, 0)
    found = mtu.place(way.hops)
    if found is None or way.kind != "black hole":
        return 0, 0
    return (found.before.ttl if found.before else 0) + 1, found.after.ttl if found.after else links
