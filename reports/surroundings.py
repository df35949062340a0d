"""The conditions of the measurement: what the steps say of both ends, joined where it agrees."""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkqual.model import ClockState, Conditions, EndConditions, Qualification


@dataclass(frozen=True, slots=True)
class Group:
    """Steps whose conditions do not contradict each other, and what they say together."""

    steps: tuple[str, ...]
    state: Conditions


@dataclass(frozen=True, slots=True)
class Drop:
    """Packets a host dropped by itself while a step ran."""

    step: str
    end: str
    counter: str
    packets: int
    seen: tuple[int, int] | None = None  # first and last reading that had risen, UTC ns of that end's clock


def groups(q: Qualification) -> list[Group]:
    """As few groups as agree; a step that stated nothing is in none."""
    found: list[Group] = []
    for m in q.measurements:
        if m.conditions == Conditions():
            continue
        for at, group in enumerate(found):
            both = _joined(group.state, m.conditions)
            if both is not None:
                found[at] = Group((*group.steps, m.step.key), both)
                break
        else:
            found.append(Group((m.step.key,), m.conditions))
    return found


def drops(q: Qualification) -> list[Drop]:
    """Every counter that moved."""
    return [
        Drop(m.step.key, name, counter, count, _seen(end, counter))
        for m in q.measurements
        for name, end in (("near", m.conditions.near), ("far", m.conditions.far))
        for counter, count in end.drops.items()
        if count
    ]


def _seen(end: EndConditions, counter: str) -> tuple[int, int] | None:
    times = [at_ns for at_ns, name, _ in end.drop_times if name == counter]
    return (min(times), max(times)) if times else None


def _joined(a: Conditions, b: Conditions) -> Conditions | None:
    near, far = _end(a.near, b.near), _end(a.far, b.far)
    if near is None or far is None or a.same_clock != b.same_clock:
        return None
    return Conditions(near, far, _worst(a.clock_error_ns, b.clock_error_ns), a.same_clock)


def _end(a: EndConditions, b: EndConditions) -> EndConditions | None:
    clocks_agree = (a.clock.source, a.clock.synchronised) == (b.clock.source, b.clock.synchronised)
    said = ((a.host, b.host), (a.platform, b.platform), (a.receive_buffer_bytes, b.receive_buffer_bytes))
    tables = ((a.versions, b.versions), (a.stamps, b.stamps))
    if not clocks_agree or any(x and y and x != y for x, y in said):
        return None
    if any(x[key] != y[key] for x, y in tables for key in x.keys() & y.keys()):
        return None
    return EndConditions(
        host=a.host or b.host,
        platform=a.platform or b.platform,
        versions=a.versions | b.versions,
        clock=_clock(a.clock, b.clock),
        stamps=dict(sorted((a.stamps | b.stamps).items())),
        receive_buffer_bytes=a.receive_buffer_bytes or b.receive_buffer_bytes,
        notes=tuple(dict.fromkeys((*a.notes, *b.notes))),
        floor=a.floor or b.floor,
    )


def _clock(a: ClockState, b: ClockState) -> ClockState:
    return replace(a, error_ns=_worst(a.error_ns, b.error_ns))


def _worst(a: int | None, b: int | None) -> int | None:
    """The larger bound of an error; one that is not known says nothing."""
    return max((bound for bound in (a, b) if bound is not None), default=None)
