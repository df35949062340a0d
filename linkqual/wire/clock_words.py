"""What the programs that keep a clock in step say of it, turned into a `ClockState`. Text in, state or None out; never an exception.

The bound of a clock's error is the root distance of RFC 5905 (section 11.1 and appendix A.5.5.2): half of the delays to the primary
source, all dispersions, the jitter, and the offset not yet taken out. None where the program does not state what a bound needs:
nobody's bound is made up here. Floor 1, pure.
"""

from __future__ import annotations

import math
import re

from linkqual.model import ClockState
from linkqual.units import NS_PER_S

TOLERANCE = 15e-6  # PHI of RFC 5905: what a clock may gain or lose while nobody sets it, s/s

_SPANS = {
    "y": 31_557_600, "month": 2_629_800, "w": 604_800, "d": 86_400, "h": 3600, "min": 60, "s": 1, "ms": 1e-3, "us": 1e-6,
    "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_LONGEST_SPAN = 100  # characters; reading a span takes time with their square
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµμ]+)")


def _ns(seconds: float) -> int | None:
    """A bound in whole ns, rounded up; None for what is no amount of time."""
    return math.ceil(seconds * NS_PER_S) if math.isfinite(seconds) and 0 <= seconds < 1e9 else None


# ---- chrony


def chrony(line: str) -> ClockState | None:
    """The one line of `chronyc -c tracking`: |offset| + root dispersion + root delay / 2 are its fields 5, 12 and 11."""
    columns = line.strip().split(",")
    try:
        offset, delay, dispersion = float(columns[4]), float(columns[10]), float(columns[11])
        stratum, leap = int(columns[2]), columns[13]
    except (IndexError, ValueError):
        return None
    bound = _ns(abs(offset) + dispersion + delay / 2)
    synchronised = leap != "Not synchronised" and stratum > 0 and bound is not None
    said = f"{columns[1] or 'no source'}, stratum {stratum}, leap {leap}"
    return ClockState("chrony", synchronised, bound if synchronised else None, said)


# ---- systemd-timesyncd


def span(text: str) -> float | None:
    """Seconds of a systemd time span: "1min 4s", "30.952ms", "-1.166ms", "0"; None for anything else."""
    body = text.strip().lstrip("+-")
    if len(body) > _LONGEST_SPAN:
        return None
    if body == "0":
        return 0.0
    parts = _SPAN.findall(body)
    if not parts or re.sub(r"\s+", "", body) != "".join(number + unit for number, unit in parts):
        return None
    if any(unit not in _SPANS for _, unit in parts):
        return None
    return sum(float(number) * _SPANS[unit] for number, unit in parts)


def timesyncd(text: str) -> ClockState | None:
    """`timedatectl timesync-status` (in the C locale).

    |offset| + delay / 2 + root distance of the server (which systemd already adds up) + jitter, all of the last packet; and what
    the clock may have strayed since, at most a poll interval ago. Without a packet the clock is not in step.
    """
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, found, value = line.strip().partition(": ")
        if found:
            fields.setdefault(name, value.strip())
    server = fields.get("Server")
    if server is None:
        return None
    leap = fields.get("Leap", "")
    said = f"{server}, stratum {fields['Stratum']}" if "Stratum" in fields else server
    if leap == "not synchronized" or fields.get("Packet count", "0") == "0":
        return ClockState("systemd-timesyncd", False, None, f"{said}: no answer of it yet")
    names = ("Offset", "Delay", "Root distance", "Jitter", "Poll interval")
    offset, delay, distance, jitter, poll = (span(fields.get(name, "").partition(" (")[0]) for name in names)
    if offset is None or delay is None or distance is None or jitter is None or poll is None:
        return ClockState("systemd-timesyncd", True, None, f"{said}; what it says of its error cannot be read")
    bound = _ns(offset + delay / 2 + distance + jitter + TOLERANCE * poll)
    return ClockState("systemd-timesyncd", True, bound, f"{said}, leap {leap or 'not told'}")


# ---- ptp4l


def ptp4l(text: str) -> dict[str, str]:
    """Fields of the first answer of `pmc -u -b 0 'GET ...'` (several answers follow one another where several clocks are asked)."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and "RESPONSE" not in line and not line.startswith("sending:"):
            fields.setdefault(*words)
    return fields


def ptp(text: str, steered: bool, time_source: str = "phc2sys") -> ClockState | None:
    """Answers of pmc to CURRENT_DATA_SET, TIME_STATUS_NP and PORT_DATA_SET, one after the other.

    IEEE 1588 states an offset from the master and the mean path delay, and no bound: how far the master is from UTC and how
    unequal both directions of that path are is told by nobody. So the state is told, and no bound of its error. `steered`: a
    program takes the PTP time over into the system clock, without which ptp4l says nothing of this clock.
    """
    fields = ptp4l(text)
    offset = fields.get("master_offset", fields.get("offsetFromMaster"))
    if offset is None:
        return None
    state = fields.get("portState", fields.get("port_state"))
    master = fields.get("gmPresent") == "true"
    said = f"master {fields.get('gmIdentity', 'not told')}, last offset {offset} ns, path delay {fields.get('meanPathDelay', 'not told')} ns"
    if not master:
        said = "no PTP master is heard"
    elif state is not None and state not in ("SLAVE", "UNCALIBRATED"):
        said += f", port {state}"
    if not steered:
        said += f"; {time_source} does not run: the system clock does not follow it"
    else:
        said += f"; {time_source} steers the clock. PTP states no bound of its error"
    synchronised = master and steered and state in (None, "SLAVE")
    return ClockState("ptp4l", synchronised, None, said)
