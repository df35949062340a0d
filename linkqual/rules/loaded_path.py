"""Where the queue of a load begins, in words, and whether the trains that expire hop by hop say the same. Floor 2, pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from linkqual.model import Direction, LoadedHop, LoadedPath, Measurement, NarrowResult, Note
from linkqual.units import format_duration

_SURE = ("", "low", "medium", "high")


def notes(measurements: Sequence[Measurement]) -> Iterator[Note]:
    """A sentence for each direction in which hops were asked beside a load: of the load that shows most."""
    for way in (Direction.FORWARD, Direction.REVERSE):
        said, weight = told(measurements, way)
        if said:
            yield Note("narrow", said, weight)


def told(measurements: Sequence[Measurement], direction: Direction) -> tuple[str, str]:
    """What the surest load of a direction shows and whether trains that expire hop by hop agree, and its weight; "" without one."""
    found = best(measurements, direction, beyond=True)
    if found is None:
        return "", "info"
    narrow = next((one.narrow for one in measurements if one.narrow and one.narrow.direction is direction), None)
    agreed, weight = _agreement(found, narrow)
    return f"{sentence(found)}{agreed}", weight


def best(measurements: Sequence[Measurement], direction: Direction, *, beyond: bool = False) -> LoadedPath | None:
    """The most sure one of a direction; None when no hop was asked. `beyond`: also of loads above what a service is granted,
    which show where that is held, and no fault.
    """
    of = (one for one in measurements if beyond or one.services is None)
    both = (path for one in of for path in (one.loaded_path, one.loaded_path_back))
    return surest([path for path in both if path is not None and path.direction is direction])


def surest(paths: Sequence[LoadedPath]) -> LoadedPath | None:
    """Of those the one that asked most; None of none."""
    return max(paths, key=lambda path: (_SURE.index(path.confidence), _asked(path)), default=None)


def sentence(found: LoadedPath) -> str:
    """The place, what is seen there, how sure that is and why."""
    if not found.hops:  # nor was every such load sent
        return f"where a queue begins {found.direction} is not known: {found.because}"
    if not found.by:
        return f"{found.direction}, under {found.load}, no hop shows where a queue begins: {found.because}"
    what = {"queue": f"the queue of {_depth(found)} begins", "loss": "the loss begins"}.get(
        found.by, "the narrowest place before the last router lies"
    )
    return (
        f"{found.direction}, under {found.load}, {what} {where(found)} ({found.confidence} confidence: {found.because})"
    )


def where(found: LoadedPath) -> str:
    """Between which two places; what hides between them is counted."""
    assert found.after is not None
    assert found.before is not None
    addresses = {hop.ttl: hop.address for hop in found.hops}
    one = (addresses.get(found.after) or f"hop {found.after}") if found.after else "the sending host"
    other = addresses.get(found.before) or f"hop {found.before}"
    hidden = found.before - found.after - 1
    within = f", with {hidden} {'hop' if hidden == 1 else 'hops'} between that cannot be told" if hidden else ""
    return f"between {one} and {other}{within}"


def _agreement(found: LoadedPath, narrow: NarrowResult | None) -> tuple[str, str]:
    """What the prefix trains say of it. Both name links by the hop they enter."""
    if not found.by or narrow is None or not narrow.named:
        return "", "info"
    assert found.after is not None
    assert found.before is not None
    inside = [link for link in (narrow.named, *narrow.narrow) if found.after < link <= found.before]
    if narrow.named in inside:
        return f"; trains that expire hop by hop name link {narrow.named}, which is there", "info"
    if inside:
        return (
            f"; trains that expire hop by hop name link {narrow.named}, and link {inside[0]} there as nearly as narrow",
            "info",
        )
    return (
        f"; trains that expire hop by hop contradict this: they name link {narrow.named} ({narrow.confidence} confidence). They measure "
        "rates and this the place of a queue: the path may have changed between the two, or flows take several paths",
        "warn",
    )


def _depth(found: LoadedPath) -> str:
    hop = next(hop for hop in found.hops if hop.ttl == found.before)
    return format_duration(max(0, round(late_ns(hop) or 0)))


def late_ns(hop: LoadedHop) -> float | None:
    """Its median round trip under load above that on the idle line, ns; None without answers in both states."""
    if not hop.idle_ns or not hop.loaded_ns:
        return None
    return statistics.median(hop.loaded_ns) - statistics.median(hop.idle_ns)


def _asked(path: LoadedPath) -> int:
    return sum(hop.loaded_sent for hop in path.hops)
