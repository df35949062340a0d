"""What a capture shows, for people and as JSON: its sessions, and one of them against a stored run."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from linkqual.stats.histogram import quantiles
from linkqual.units import format_duration, format_instant

if TYPE_CHECKING:
    from linkqual.capture import Found, Reading
    from linkqual.model import Histogram, Json
    from linkqual.session.captured import Key
    from linkqual.session.witness import Comparison

_QUANTILES = (0.5, 0.99, 0.999, 1.0)
_MOST_AT_LENGTH = 3
_HEADS = f"{'':>3}{'sent':>12}{'answered':>12}{'unanswered':>12}{'missing':>10}{'round trip':>12}   session"
_LINKS = {0: "loopback", 1: "Ethernet", 113: "Linux cooked", 276: "Linux cooked v2", 101: "raw IP"}
_COUNTS = {
    "unseen": "answered although their request was not captured: the capture is not complete, or the way back is another",
    "late": "answered after the timeout: counted as unanswered",
    "stragglers": "of numbers settled long before: not counted",
    "elsewhere": "seen once more on another interface: not counted as copies",
    "jumps": "jump of the numbers: the session began anew",
    "uncorrected": "replies whose T3 is the reflector program's, no Follow-Up put it right: left out of the round trip",
    "unfinished": "without a reply, sent within the timeout before the capture's end: lost, or still under way",
}


def name(key: Key) -> str:
    """ "192.0.2.1:40000 -> 192.0.2.2:862, SSID 3"."""
    return (
        f"{_endpoint(key.sender, key.sender_port)} -> {_endpoint(key.reflector, key.reflector_port)}, SSID {key.ssid}"
    )


def _endpoint(address: bytes, port: int) -> str:
    host = str(ipaddress.ip_address(address))
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def as_text(file: str, told: Reading, found: dict[Key, Found]) -> list[str]:
    """What was read, and each session: at length, of many one line each."""
    lines = [*_reading(file, told)]
    for number, each in enumerate(found.values(), 1):
        if len(found) > _MOST_AT_LENGTH:
            lines += ["", _HEADS] if number == 1 else []
            lines.append(_one_line(number, each))
        else:
            lines += ["", *at_length(each)]
    if len(found) > _MOST_AT_LENGTH:
        lines += ["", "--session N shows one of them at length"]
    return lines


def _one_line(number: int, each: Found) -> str:
    summary = each.summarizer.summary()
    median = format_duration(quantiles(summary.round_trip_delay, (0.5,))[0]) if summary.round_trip_delay.n else "-"
    counts = f"{summary.sent:>12,}{summary.received:>12,}{summary.lost:>12,}{summary.lost_forward:>10,}"
    return f"{number:>3}{counts}{median:>12}   {name(each.session.key)}"


def _reading(file: str, told: Reading) -> Iterator[str]:
    kinds = ", ".join(_LINKS.get(kind, f"link type {kind}") for kind in sorted(told.link_types))
    yield f"{file}: {told.packets:,} packets ({kinds or 'none'}), {told.stamp:,} of them STAMP"
    if told.first_ns is not None and told.last_ns is not None:
        yield f"captured {format_instant(told.first_ns)}, {format_duration(told.last_ns - told.first_ns)} long"
    if told.timeless:
        yield f"{told.timeless:,} packets without a time were left out"
    if told.beyond:
        yield f"{told.beyond:,} packets of further sessions were left out: capture fewer of them at once"
    for kind, count in told.unreadable.items():
        yield f"{count:,} packets of link type {kind} cannot be read here: capture on one interface, or with -i any"
    if told.damage:
        yield f"DAMAGED: {told.damage}; what came before it was used"


def at_length(each: Found) -> Iterator[str]:
    """Every count of one session that is not zero, and what it means."""
    summary, counts, key = each.summarizer.summary(), each.session.counts, each.session.key
    found = each.session.attribution()
    yield f"{name(key)}, {each.session.mode.name.lower()}"
    rows = [
        ("sent, by the numbers", summary.sent, ""),
        ("requests seen", counts.requests - counts.request_copies, ""),
        ("requests missing", summary.lost_forward, "lost before this capture"),
        ("replies seen", summary.received, ""),
        ("unanswered", summary.lost, "lost beyond this capture"),
        ("lost on the way there", found.forward or 0, "by the reflector's own numbers, up to its last reply"),
        ("lost on the way back", found.reverse or 0, "between the reflector and this capture"),
        ("before the first reply", found.head, "lost either way: the session's beginning was not captured"),
        ("after the last reply", found.tail, "lost either way, or still under way"),
        ("copied before the capture", counts.request_copies, ""),
        ("copied on the way there", summary.duplicates_forward, "answered twice by the reflector"),
        ("copied on the way back", summary.duplicates_reverse, ""),
        ("reordered on the way there", summary.reordered_forward, ""),
        ("reordered on the way back", summary.reordered_reverse, ""),
        *((field, getattr(counts, field), meaning) for field, meaning in _COUNTS.items()),
    ]
    for what, count, meaning in rows:
        if count or what in ("replies seen", "unanswered"):
            yield f"  {what:<28}{count:>14,}   {meaning if count else ''}".rstrip()
    if found.reason:
        yield f"  direction of losses unknown: {found.reason}"
    if summary.round_trip_delay.n:
        yield f"  round trip from here: {_quantiles(summary.round_trip_delay)}"
        yield "    by the capture's stamps, less the reflector's T3 - T2"


def _quantiles(histogram: Histogram) -> str:
    values = quantiles(histogram, _QUANTILES)
    return ", ".join(
        f"{what} {format_duration(value)}" for what, value in zip(("p50", "p99", "p99.9", "max"), values, strict=True)
    )


def against_text(run: str, step: str, key: Key, place: str, done: Comparison) -> list[str]:
    """One table, and what it means."""
    where = {"near": "at the sender", "far": "at the reflector", "between": "between both"}[place]
    lines = [f"against {run}, step {step}: {name(key)}, captured {where}"]
    lines.append(f"  {'':<28}{'run':>14}{'capture':>14}")
    for row in done.rows:
        sign = ("differs" if row.differs else "equal") if row.judged else ""
        seen = "unknown" if row.capture is None else f"{row.capture:,}"
        lines.append(f"  {row.what:<28}{row.run:>14,}{seen:>14}   {sign}".rstrip())
    if done.size.n:
        middle, extreme = quantiles(done.difference, (0.5,))[0], quantiles(done.size, (0.5, 0.99, 1.0))
        spread = ", ".join(f"{q} {format_duration(v)}" for q, v in zip(("p50", "p99", "max"), extreme, strict=True))
        sign = "-" if (middle or 0) < 0 else "+"
        said = format_duration(abs(middle or 0))
        lines.append(
            f"  {done.compared}, capture less run: median {sign}{said}; without sign {spread} ({done.size.n:,} packets)"
        )
    if done.run.n:
        lines.append(f"  {done.compared} of the same packets, run: {_quantiles(done.run)}")
        lines.append(f"  {'':<{len(done.compared)}} {'':>17}capture: {_quantiles(done.capture)}")
    lines += [
        f"  {count:,} packet{'' if count == 1 else 's'}: {what}" for what, count in done.contradictions.items() if count
    ]
    return [*lines, *_confirmed(done)]


def _confirmed(done: Comparison) -> Iterator[str]:
    part = done.coverage
    if part is None:
        yield "the capture confirms the run" if done.agrees else "the capture does NOT confirm the run"
    elif part.last < part.first:
        yield "the capture covers no packet of the run from its request to its reply: nothing can be said of the run"
    else:
        within = "both agree" if done.agrees else "the capture does NOT confirm the run"
        covers = f"the capture covers packets {part.first:,} to {part.last:,} of 0 to {part.highest:,}"
        yield f"{covers}; within them {within}; nothing can be said of the rest"


# ---- JSON


def as_json(file: str, told: Reading, found: dict[Key, Found]) -> dict[str, Json]:
    """The same, durations in ns."""
    return {
        "file": file,
        "packets": told.packets,
        "stamp_packets": told.stamp,
        "damage": told.damage or None,
        "timeless": told.timeless,
        "beyond": told.beyond,
        "link_types": {str(kind): count for kind, count in told.link_types.items()},
        "first_ns": told.first_ns,
        "last_ns": told.last_ns,
        "sessions": [_session_json(each) for each in found.values()],
    }


def _session_json(each: Found) -> dict[str, Json]:
    key, summary = each.session.key, each.summarizer.summary()
    names = (
        "sent",
        "received",
        "lost",
        "duplicates_forward",
        "duplicates_reverse",
        "reordered_forward",
        "reordered_reverse",
    )
    return {
        "sender": _endpoint(key.sender, key.sender_port),
        "reflector": _endpoint(key.reflector, key.reflector_port),
        "ssid": key.ssid,
        "mode": each.session.mode.name.lower(),
        **{field: getattr(summary, field) for field in names},
        "missing": summary.lost_forward,
        "attribution": asdict(each.session.attribution()),
        "counts": asdict(each.session.counts),
        "round_trip_ns": _quantiles_json(summary.round_trip_delay),
    }


def _quantiles_json(histogram: Histogram) -> dict[str, Json]:
    return dict(zip(("p50", "p99", "p99.9", "max"), quantiles(histogram, _QUANTILES), strict=True))


def against_json(run: str, step: str, key: Key, place: str, done: Comparison) -> dict[str, Json]:
    """The comparison."""
    return {
        "run": run,
        "step": step,
        "session": name(key),
        "at": place,
        "agrees": done.agrees,
        "counts": [asdict(row) | {"differs": row.differs} for row in done.rows],
        "contradictions": done.contradictions,
        "coverage": asdict(done.coverage) if done.coverage else None,
        "compared": done.compared or None,
        "run_ns": _quantiles_json(done.run),
        "capture_ns": _quantiles_json(done.capture),
        "difference_ns": _quantiles_json(done.difference),
        "difference_size_ns": _quantiles_json(done.size),
    }
