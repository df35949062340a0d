"""The engine benchmark's figures in words: what it is, unit, ratio. Each row is explained in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_WIDTH = 44
_NAMES = {"p50": "median", "p99": "p99", "p99_9": "p99.9"}
Answer = dict[str, Any]


def lines(answer: Answer) -> Iterator[str]:
    """The whole table."""
    yield ""
    yield from _round_trips(answer)
    yield from _chain(answer["chain"])
    yield from _rates(answer)
    yield from _certifying(answer["certify"])
    yield from _costs(answer)
    if answer["load_average"] > 0.5:
        yield f"noisy: the load average was {answer['load_average']} before the first packet"


def _row(what: str, said: str, ratio: str = "") -> str:
    return f"{what:<{_WIDTH}}{said:<48}  {ratio}".rstrip()


def _quantiles(figures: Answer) -> str:
    return "  ".join(f"{name} {figures[key]:.2f}" for key, name in _NAMES.items() if key in figures) + " us"


def _round_trips(answer: Answer) -> Iterator[str]:
    yield _row("round trip at 1 kpps, linkqual", _quantiles(answer["rtt_us"]))
    for name, figures in answer["peers"].items():
        what = f"  {name}, one way" if name == "owping" else f"  {name}"
        if figures is None:
            yield _row(what, "not measured")
            continue
        ratio = ", ".join(f"{_NAMES[key]} {times:g}x" for key, times in answer["ratios"][name].items())
        yield _row(what, _quantiles(figures), f"linkqual below: {ratio}")


def _chain(found: Answer | None) -> Iterator[str]:
    if found is None:
        yield _row("three routers more", "not measured: no tcpdump")
        return
    for who, what in (("linkqual", "three routers more, linkqual"), ("witness", "  the packet capture's own stamps")):
        said = f"{found[f'{who}_direct_us']:.2f} -> {found[f'{who}_routed_us']:.2f} us, added {found[f'{who}_added_us']:.2f} us"
        yield _row(what, said, f"differs by {100 * found['error']:+.1f} %" if who == "linkqual" else "")
    if "ping_added_us" in found:
        yield _row("  ping", f"added {found['ping_added_us']:.1f} us")


def _rates(answer: Answer) -> Iterator[str]:
    yield _row("round trip, 100 kpps on a schedule", f"{answer['open_loop_kpps']:.1f} kpps reached")
    for window, kpps in answer["closed_loop"].items():
        yield _row(f"round trip, {window} packets in flight", f"{kpps:.1f} kpps reached")
    yield _row("loss of its own in all of these", f"{answer['own_loss']} packets")
    own = (answer["one_way"].get("linkqual") or {}).get("kpps")
    for name, figures in answer["one_way"].items():
        what = f"one way without loss, {name.replace('_', ', ')}"
        if figures is None:
            yield _row(what, "not measured")
            continue
        kpps, failed = figures.get("kpps", figures.get("one_way_kpps")), figures.get("failed")
        said = f"{kpps:.0f} kpps, CPU {figures['near']:.1f} + {figures['far']:.1f} s a million" if kpps else "no step"
        if failed:
            said += f" ({failed['asked_kpps']} asked: {failed['kpps']:.0f}, {failed['lost']:,} lost)"
        yield _row(what, said, f"linkqual above: {own / kpps:.1f}x" if own and kpps and name != "linkqual" else "")


def _certifying(found: Answer) -> Iterator[str]:
    for how, what in (("fixed", "length set before"), ("looking", "ends when it may")):
        said = ", ".join(f"{seconds:.2f}" for seconds in found["seconds"][how])
        packets = ", ".join(f"{n:,}" for n in found["packets"][how])
        yield _row(f"loss <= 1e-5 proven, {what}", f"{said} s with 0, 1, 2, 3 lost", f"({packets} packets)")


def _costs(answer: Answer) -> Iterator[str]:
    rates = {"at 20 kpps": answer["rate_20k"], "at 100 kpps": answer["cpu_s_per_million"]}
    for what, cpu in (rates | {"as fast as it goes": answer["cpu_s_per_million_closed"]}).items():
        yield _row(f"CPU {what}", f"near {cpu['near']:.1f}, far {cpu['far']:.1f} s a million packets")
    memory = answer["memory_mb_above_numpy"]
    sent = f"{answer['certify']['sent']:,} packets"
    yield _row(
        "peak memory above numpy's import", f"near {memory['near']:.1f}, far {memory['far']:.1f} MB after {sent}"
    )
    yield _row("departures behind their schedule at 1 kpps", f"median {answer['departure_late_us_p50']:.1f} us")
