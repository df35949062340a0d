"""Both ends' counts of a phase put together. Floor 2, pure."""

from __future__ import annotations

from typing import Any

from linkqual.model import Direction, Histogram, LoadCount, LossEvent
from linkqual.session.load_phase import Phase
from linkqual.session.load_schedule import Schedule
from linkqual.units import NS_PER_S

HOST_SHARE = 0.99  # of what was asked: less than this, and the host could not offer it

TOLD = ("next_seq", "received", "received_bytes", "received_ns", "dropped")  # of `told`

Counts = dict[str, Any]


def together(phase: Phase, direction: Direction, sent: Counts, got: Counts, short: str = "") -> LoadCount:
    """`sent`: what the sending end counted, `got`: what the receiving end did (`LoadCounter.data` and its socket); both whole."""
    packets, received = int(sent["sent"]), int(got["received"])
    lost = max(0, packets - received)
    span_ns = int(got["received_ns"])
    after_first = int(got["received_bytes"]) - int(got["first_bytes"])
    interval_ns, by_departure = _by_departure(sent["departed"], got["departed"])
    flows = zip(sent["by_flow"], got["by_flow"], strict=False)
    return LoadCount(
        name=phase.name,
        direction=direction,
        asked_bps=phase.rate_bps,
        asked_ns=phase.duration_ns,
        sizes=phase.sizes,
        flows=phase.flows,
        segmented=int(sent["train"]) <= 1,
        sent=packets,
        sent_bytes=int(sent["sent_bytes"]),
        sent_ns=int(sent["sent_ns"]),
        received=received,
        received_bytes=int(got["received_bytes"]),
        received_ns=span_ns,
        rate_bps=after_first * 8 * NS_PER_S / span_ns if span_ns > 0 else None,
        lost=lost,
        host_lost=min(lost, int(got["dropped"]) * int(got["longest_train"])),
        duplicates=int(got["duplicates"]),
        reordered=int(got["reordered"]),
        damaged=int(got["damaged"]),
        interval_ns=int(got["arrived"]["interval_ns"]),
        intervals=tuple((int(count), int(octets)) for count, octets in got["arrived"]["sums"]),
        by_departure=by_departure if interval_ns == got["arrived"]["interval_ns"] else (),
        by_flow=tuple((int(left), int(count), int(octets)) for left, (count, octets) in flows),
        one_way=_histogram(got["one_way"]),
        loss_events=_events(direction, sent, got),
        short=short or _short(phase, sent),
        cpu_sender=_share(sent),
        cpu_receiver=_share(got),
    )


def told(phase: Phase, direction: Direction, told_: Counts, short: str) -> LoadCount:
    """What the receiving end last told before it was heard no more: packets beyond the newest it knew of count as not sent."""
    packets, received, span_ns = int(told_["next_seq"]), int(told_["received"]), int(told_["received_ns"])
    return LoadCount(
        name=phase.name,
        direction=direction,
        asked_bps=phase.rate_bps,
        asked_ns=phase.duration_ns,
        sizes=phase.sizes,
        flows=phase.flows,
        segmented=phase.segmented,
        sent=packets,
        sent_bytes=Schedule(phase).bytes_before(packets),
        received=received,
        received_bytes=int(told_["received_bytes"]),
        received_ns=span_ns,
        rate_bps=int(told_["received_bytes"]) * (1 - 1 / max(received, 1)) * 8 * NS_PER_S / span_ns
        if span_ns > 0
        else None,
        lost=max(0, packets - received),
        host_lost=min(max(0, packets - received), int(told_["dropped"])),
        short=short,
    )


def heard(phase: Phase, direction: Direction, got: Counts, short: str) -> LoadCount:
    """What the receiving end has when the sending one was lost: packets beyond the newest that came count as not sent."""
    packets = int(got["next_seq"])
    sent: Counts = {
        "sent": packets,
        "sent_bytes": Schedule(phase).bytes_before(packets),
        "sent_ns": 0,
        "train": 1 if phase.segmented else 2,
        "departed": {"interval_ns": 0, "first": 0, "sums": []},
        "by_flow": [],
        "last_sent_ns": 0,
        "ended_by": short,
    }
    return together(phase, direction, sent, got, short)


def _short(phase: Phase, sent: Counts) -> str:
    """Why less left than was asked for."""
    ended_by = str(sent["ended_by"])
    if ended_by in ("duration", "packets"):
        return "host" if _slow(phase, sent) else ""
    return {"halt": "interrupted"}.get(ended_by, ended_by)


def _slow(phase: Phase, sent: Counts) -> bool:
    if not phase.rate_bps:
        return False
    if sent["ended_by"] == "packets":
        allowed_ns = int(sent["sent_bytes"]) * 8 * NS_PER_S / phase.rate_bps
        return int(sent["sent_ns"]) * HOST_SHARE > allowed_ns
    asked = phase.rate_bps * phase.duration_ns / (8 * NS_PER_S)
    return int(sent["sent_bytes"]) < asked * HOST_SHARE - 2 * phase.longest


def _share(end: Counts) -> float | None:
    wall_ns = int(end.get("wall_ns", 0))
    return int(end["cpu_ns"]) / wall_ns if wall_ns else None


def _events(direction: Direction, sent: Counts, got: Counts) -> tuple[LossEvent, ...]:
    events = [LossEvent(direction, a_ns, b_ns - a_ns, first, n, first + n - 1) for first, n, a_ns, b_ns in got["gaps"]]
    missing = int(sent["sent"]) - int(got["next_seq"])
    if missing > 0:  # the end of the phase, of which no jump tells
        last_ns = int(sent["last_sent_ns"])
        events.append(LossEvent(direction, last_ns, 0, int(got["next_seq"]), missing, int(sent["sent"]) - 1))
    return tuple(events)


def _by_departure(sent: Counts, got: Counts) -> tuple[int, tuple[tuple[int, int], ...]]:
    """(length of an interval, (sent, received) in each of the sender's); empty where both ends had to lengthen it differently."""
    if sent["interval_ns"] != got["interval_ns"]:
        return 0, ()
    received = {int(got["first"]) + i: int(count) for i, (count, _) in enumerate(got["sums"])}
    first = int(sent["first"])
    rows = tuple((int(count), received.get(first + i, 0)) for i, (count, _) in enumerate(sent["sums"]))
    return int(sent["interval_ns"]), rows


def _histogram(data: Counts) -> Histogram:
    return Histogram(**data | {"indices": tuple(data["indices"]), "counts": tuple(data["counts"])})
