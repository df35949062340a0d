"""A document whose hops make no sense is refused with its place, and not reported on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from linkqual import document_paths
from linkqual import model as m
from linkqual.errors import InputError

from .samples import SAMPLES
from .ways import WAYS, narrowed


def changed(result: str, **fields: Any) -> m.Qualification:
    """`narrowed()` with other fields in the first result of this name."""
    q = narrowed()
    at = next(k for k, one in enumerate(q.measurements) if getattr(one, result) is not None)
    one = q.measurements[at]
    other = replace(one, **{result: replace(getattr(one, result), **fields)})
    return replace(q, measurements=(*q.measurements[:at], other, *q.measurements[at + 1 :]))


def hops(change: Callable[[tuple[m.Hop, ...]], tuple[m.Hop, ...]]) -> m.Qualification:
    path = next(one.path for one in narrowed().measurements if one.path is not None)
    return changed("path", forward=replace(path.forward, hops=change(path.forward.hops)))


def segment(text: str) -> m.Qualification:
    q = narrowed()
    return replace(q, plan=replace(q.plan, link=replace(q.plan.link, segments=(m.LineSegment("core", "near", text),))))


BLACK_HOLE = m.MtuWay(m.Direction.FORWARD, "black hole", hops=(m.MtuHop(10**9),))
DAMAGED = {
    "has others behind it": hops(lambda made: (replace(made[0], reached=True), *made[1:])),
    "received 4 of 3": hops(lambda made: (replace(made[0], sent=3, received=4), *made[1:])),
    "out of order": hops(lambda made: (made[1], made[0], *made[2:])),
    "1000000000 is the number of no hop": hops(lambda made: (*made[:-1], replace(made[-1], ttl=10**9))),
    "2 and None are no two hops": changed("loaded_path", before=None),
    "4 and 2 are no two": changed("loaded_path", after=4, before=2),
    "hop 3 was not asked": changed("loaded_path", before=3),
    "'sure' is no confidence": changed("loaded_path", confidence="sure"),
    "'guess' is nothing": changed("loaded_path", by="guess"),
    "300 is the number of no hop": changed("narrow", links=300),
    "1000000000 is": changed("mtu", ways=(BLACK_HOLE,)),
    "is no place on a line": segment("the core"),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_what_no_run_can_have_written_is_refused_with_its_place(message: str) -> None:

    with pytest.raises(InputError, match=message) as caught:
        document_paths.check(DAMAGED[message])
    assert caught.value.where.startswith(("measurements[", "plan.link.segments[0]"))
    assert "damaged or edited" in caught.value.hint


@pytest.mark.parametrize("made", [*SAMPLES.values(), *WAYS.values()])
def test_what_a_run_writes_is_taken(made: Callable[[], m.Qualification]) -> None:
    document_paths.check(made())
