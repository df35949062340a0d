"""Paths of every kind, for pictures and tables of them: narrow, hidden, long, IPv6, unlike, half seen."""

from __future__ import annotations

from dataclasses import replace

from linkqual import model as m

from .measured import FORWARD, REVERSE, START, hop, path
from .samples import document
from .yardstick import LINK

SECOND = 1_000_000_000
MBIT = 1e6


def taken(probe: str, **result: object) -> m.Measurement:
    step = m.Step(f"{probe}/forward", probe, {}, FORWARD)
    return replace(m.Measurement(step, START, SECOND), **result)  # type: ignore[arg-type]


def seen(number: int, rate: float | None, **changes: object) -> m.LinkSeen:
    return replace(m.LinkSeen(number, 360 * MBIT, rate and rate * MBIT, rise_ns=9_000_000), **changes)  # type: ignore[arg-type]


def narrow(**changes: object) -> m.NarrowResult:
    """Link 3 of 5 has 100 Mbit/s, link 2 is a near tie with 108, the first one carries all that was offered."""
    one = m.NarrowResult(
        FORWARD, 5, "shaper", (100 * MBIT, 99.9 * MBIT, 100 * MBIT), trains=3, bucket_bytes=64_000, buffer_ns=31_000_000,
        narrow=(2, 3), named=3, seen=(seen(1, None), seen(2, 108), seen(3, 100, narrow=True), seen(4, 100.04, narrow=True)),
        confidence="high", because="load waited", outlasted=True, expired=(900, 900, 900, 900), sent_bytes=20_000_000,
    )  # fmt: skip
    return replace(one, **changes)  # type: ignore[arg-type]


def routers(count: int, *, v6: bool = True, silent: tuple[int, ...] = ()) -> m.PathResult:
    """So many routers each way, all of them the same, their links /127 or /31."""

    def address(link: int, side: int) -> str:
        return (
            f"2001:db8:1234:5678:9abc:def0:{link:x}:{side:x}" if v6 else f"198.51.{100 + link // 100}.{2 * link + side}"
        )

    there = [hop(k, None if k in silent else address(k, 1), 0.7 * k) for k in range(1, count + 1)]
    back = [
        hop(k, None if count + 1 - k in silent else address(count + 2 - k, 0), 0.7 * k) for k in range(1, count + 1)
    ]
    near, far = address(1, 0), address(count + 1, 1)
    there.append(hop(count + 1, far, 0.7 * count + 0.5, reached=True))
    back.append(hop(count + 1, near, 0.7 * count + 0.5, reached=True))
    pairs = tuple((k, count + 1 - k) for k in range(1, count + 1))
    word = "undetermined" if silent else "symmetric"
    return m.PathResult(
        m.Trace(near, far, 41_000, 862, tuple(there)), m.Trace(far, near, 862, 41_000, tuple(back)), word, "as made", pairs
    )  # fmt: skip


def of(*measurements: m.Measurement, link: m.Link = LINK) -> m.Qualification:
    """A run about the path alone."""
    return document(link, measurements, None)


def unlike() -> m.Qualification:
    """The return takes four routers that forward does not take."""
    return of(path(symmetric=False))


def narrowed() -> m.Qualification:
    """Four routers, the third silent; the narrow link is known forward, a policer is in the return, and a black hole."""
    hole = m.MtuWay(FORWARD, "black hole", 1500, 1500, 1400, 1401, hops=(m.MtuHop(1, "192.0.2.1", short=True, long=True), m.MtuHop(2, "192.0.2.5", short=True)))  # fmt: skip
    told = m.MtuWay(REVERSE, "told", 1500, 1500, 1492, 1493, told_by="192.0.2.34", hops=(m.MtuHop(1, "192.0.2.34", short=True),))  # fmt: skip
    back = narrow(direction=REVERSE, kind="policer", narrow=(1,), named=1, seen=(seen(1, 100, narrow=True),), buffer_ns=None)  # fmt: skip
    asked = (m.LoadedHop(2, "192.0.2.5", 3, (620_000,) * 3, 3, (630_000,) * 3), m.LoadedHop(4, "192.0.2.17", 3, (5_400_000,) * 3, 3, (36_400_000,) * 3))  # fmt: skip
    loaded = m.LoadedPath(FORWARD, "16 TCP streams", asked, 2, 4, "queue", "high", "as made")
    return of(
        path(), taken("mtu", mtu=m.MtuResult((hole, told))), taken("narrow", narrow=narrow()), taken("narrow", narrow=back),
        taken("throughput", loaded_path=loaded),
    )  # fmt: skip


def long_v6(count: int = 12) -> m.Qualification:
    """Twelve routers, addresses as long as they come."""
    found = narrow(links=count + 1, named=7, narrow=(7,), seen=tuple(seen(k, None if k < 7 else 100, narrow=k > 6) for k in range(1, count + 1)))  # fmt: skip
    return of(taken("path", path=routers(count, silent=(4, 5))), taken("narrow", narrow=found))


def half() -> m.Qualification:
    """A reflector of others at the far end: nobody traces back, and the trace there ends in silence."""
    whole = path().path
    assert whole is not None
    why = m.Fault("no-way-back", "a reflector that is not ours traces nothing", "our agent traces back")
    there = replace(whole.forward, hops=whole.forward.hops[:3])
    back = replace(whole.reverse, hops=(), fault=why)
    return of(taken("path", path=m.PathResult(there, back, "undetermined", "the reverse trace is not whole", ())))


def untraced() -> m.Qualification:
    """Only the search for the narrowest hop ran."""
    return of(taken("narrow", narrow=narrow()))


WAYS = {one.__name__: one for one in (unlike, narrowed, long_v6, half, untraced)}
