"""One iperf3 JSON document -> seconds, totals and conditions; or the Fault its damage makes. Pure: text in, values out. Floor 4.

Success is judged by the `error` key and by what is there, never by the exit code (0 on failure up to 3.13). Damage never becomes
a zero; each kind has its name:

    iperf3-empty      nothing written                          iperf3-not-json   text, or a warning before the document
    iperf3-cut        ends in the middle                       iperf3-several    more than one document
    iperf3-nonsense   a rate, time or count that is no finite number of zero or more
    iperf3-no-result  a document without any interval, and no error to explain it
    iperf3-error      the document carries an error that has no kind of its own below
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from linkqual.model import Fault, Json
from linkqual.units import NS_PER_S

_WHOLE_S = 0.9  # an interval shorter than this is the rest of the run, not a second
_OVERLAP_S = 0.05  # clocks of two reports may differ so much and still follow each other
_RAW = "the document is kept in the run folder's raw/"

# Since which version, the first without it, and what results cannot be trusted in, with the number of the project's issue (or
# pull request), and what is done about it here. From its release notes and issues.
KNOWN_WRONG: tuple[tuple[tuple[int, int], tuple[int, int], str], ...] = (
    ((3, 0), (3, 5), "totals count data that came after the end of the test (#692): only whole seconds are used"),
    ((3, 0), (3, 12), "large RTT values may be printed negative (#1372): such ones are left out"),
    ((3, 0), (3, 14), "totals are wrong with --omit (#443, #1489): the warm-up is cut off here instead"),
    ((3, 0), (3, 14), "the exit code is 0 on failure with -J (#1405): only the document is believed"),
    ((3, 10), (3, 14), "fields are there twice with several streams (#1492): none of them is used"),
    ((3, 0), (3, 15), "a server may wait for its client for ever (ESNET-SECADV-2023-0002): the agent ends it"),
    ((3, 0), (3, 16), "all streams share one thread (PR #1591): at high rates one core is the limit, not the line"),
    ((3, 16), (3, 18), "the document may be written twice (#1688, #1716): a copy that is the same counts once"),
    (
        (3, 16),
        (3, 18),
        "may crash when its threads end (#1750, #1760, #1801): a missing document is a fault, not a slow line",
    ),
    ((3, 16), (3, 18), "a limited rate burns a core (#1741): with --max-rate its CPU figure is not that of the load"),
    ((3, 17), (3, 18), "--get-server-output overflows with several streams (#1776): the agent hands it over instead"),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """One reporting interval, all streams together. Times in seconds since the test began."""

    start_s: float
    seconds: float
    bps: float
    bytes: int
    omitted: bool = False
    flows: tuple[int, ...] = ()  # bytes of each stream
    rtt_ns: int = 0  # a sender's: TCP's smoothed estimate, mean of the streams; 0: not told
    retransmits: int | None = None  # a sender's
    window_bytes: int = 0  # a sender's largest congestion window
    receive_window_bytes: int = 0  # the largest window offered to a sender


@dataclass(frozen=True, slots=True)
class Report:
    """What one end wrote. `sending`: this end was the sender, so intervals are what left, not what arrived."""

    version: str
    intervals: tuple[Interval, ...]
    sending: bool
    error: str = ""
    sent_bytes: int | None = None
    received_bytes: int | None = None
    retransmits: int | None = None
    congestion_control: str = ""
    mss: int | None = None
    rtt_min_ns: int | None = None  # the sender's TCP_INFO
    rtt_mean_ns: int | None = None
    cpu_here: float | None = None  # 0..1 of one core
    cpu_there: float | None = None
    accepted_from: str = ""  # a server's: who came

    def seconds(self, warmup_s: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Rates (bit/s) of the whole seconds that began before the warm-up's end, and of those after."""
        early = [one.bps for one in self._whole() if _early(one, warmup_s)]
        return tuple(early), tuple(one.bps for one in self.measured(warmup_s))

    def measured(self, warmup_s: float) -> tuple[Interval, ...]:
        """The whole seconds after the warm-up."""
        return tuple(one for one in self._whole() if not _early(one, warmup_s))

    def _whole(self) -> list[Interval]:
        return [one for one in self.intervals if one.seconds >= _WHOLE_S]


def of_reads(seconds: Sequence[tuple[int, int]]) -> Report | None:
    """A receiver that was killed, from what the kernel counted: (ns, octets read) of each second. None without any."""
    intervals, start_s = [], 0.0
    for length_ns, moved in seconds:
        lasted_s = length_ns / NS_PER_S
        intervals.append(Interval(start_s, lasted_s, moved * 8 / lasted_s, moved))
        start_s += lasted_s
    return Report("", tuple(intervals), sending=False) if intervals else None


def _early(one: Interval, warmup_s: float) -> bool:
    return one.omitted or one.start_s < warmup_s - _WHOLE_S / 2


def read(text: str) -> Report | Fault:
    """The document of one end. A Report may carry an `error` and the seconds measured before it."""
    document = _document(text)
    if isinstance(document, Fault):
        return document
    error = document.get("error", "")
    try:
        report = _report(document, str(error))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        if error:
            return fault_of(str(error))
        reason = str(problem) if isinstance(problem, ValueError) else f"{type(problem).__name__}: {problem}"
        return Fault("iperf3-nonsense", f"an iperf3 document holds what cannot be: {reason}", _RAW)
    if not report.intervals:
        if error:
            return fault_of(str(error))
        return Fault("iperf3-no-result", "an iperf3 document without any interval", _RAW)
    return report


def fault_of(error: str) -> Fault:
    """The kind of trouble behind the text of iperf3's `error`."""
    lower = error.lower()
    said = f"iperf3: {error.strip()}"
    if "busy" in lower:
        return Fault("busy", said, "somebody else measures there; try again when that test is over")
    if "interrupt" in lower:
        return Fault("interrupted", said)
    if "congestion" in lower:
        hint = "load it (modprobe tcp_NAME), allow it (net.ipv4.tcp_allowed_congestion_control), or choose another"
        return Fault("no-capability", said, hint)
    if any(word in lower for word in ("closed", "terminated", "reset", "broken pipe", "idle")):
        return Fault("peer-lost", said, "see what the agent wrote, and run again")
    if any(word in lower for word in ("refused", "timed out", "timeout", "unreachable", "no route")):
        return Fault("unreachable", said, "let the agent's iperf3 ports (TCP) through the firewalls between")
    return Fault("iperf3-error", said, _RAW)


def known_wrong(version: str) -> tuple[str, ...]:
    """What is known to be wrong in that version; empty for one without known faults or of unknown number."""
    found = number(version)
    if found is None:
        return ()
    return tuple(f"iperf3 {version}: {what}" for since, until, what in KNOWN_WRONG if since <= found < until)


def number(version: str) -> tuple[int, int] | None:
    """(3, 12) of "3.12-mt"."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def _document(text: str) -> dict[str, Json] | Fault:
    begun = text.strip()
    if not begun:
        return Fault("iperf3-empty", "iperf3 wrote nothing", "run it by hand to see why: iperf3 -c ADDRESS -J")
    try:
        document, end = json.JSONDecoder(parse_constant=_no_number).raw_decode(begun)
    except (ValueError, RecursionError) as error:
        return _damage(begun, error)
    rest = begun[end:].strip()
    if rest == begun[:end].strip():  # 3.16 and 3.17
        rest = ""
    if rest.startswith("{") and isinstance(document, dict):
        return Fault("iperf3-several", "more than one iperf3 document in a row", _RAW)
    if rest or not isinstance(document, dict):
        return Fault("iperf3-not-json", f"iperf3 wrote more than a document: {(rest or begun)[:80]!r}", _RAW)
    return document


def _damage(text: str, error: Exception) -> Fault:
    if not text.startswith("{"):
        return Fault("iperf3-not-json", f"iperf3 wrote no JSON but {text.splitlines()[0][:80]!r}", _RAW)
    if not isinstance(error, json.JSONDecodeError):
        return Fault("iperf3-nonsense", f"an iperf3 document holds what cannot be: {error}", _RAW)
    if re.match(r"[-+]?(?:nan|inf)\b", text[error.pos : error.pos + 8], re.IGNORECASE):
        return Fault("iperf3-nonsense", "an iperf3 document holds a rate that is not a number", _RAW)
    if _open_at_end(text):
        return Fault("iperf3-cut", "an iperf3 document ends in the middle", _RAW)
    return Fault("iperf3-not-json", f"what iperf3 wrote is no JSON: {error}", _RAW)


_STRING = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)  # open ones too: the time stays in proportion to the text


def _open_at_end(text: str) -> bool:
    """Whether a bracket or a string is still open where the text ends."""
    bare = _STRING.sub(lambda string: "" if string[1] else '"', text)
    return '"' in bare or bare.count("{") > bare.count("}") or bare.count("[") > bare.count("]")


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _report(document: dict[str, Json], error: str) -> Report:
    start, end = document.get("start") or {}, document.get("end") or {}
    streams = [stream for one in document.get("intervals") or [] for stream in one["streams"]]
    rtts = _rtts(streams)
    return Report(
        version=str(start.get("version", "")).removeprefix("iperf").strip(),
        intervals=_intervals(document.get("intervals") or []),
        sending=any(stream.get("sender") for stream in streams),
        error=error,
        congestion_control=str(end.get("sender_tcp_congestion", "")),
        rtt_min_ns=min(rtts, default=None),
        rtt_mean_ns=round(sum(rtts) / len(rtts)) if rtts else None,
        accepted_from=str((start.get("accepted_connection") or {}).get("host", "")),
        **({} if error else _totals(document)),
    )


def _totals(document: dict[str, Json]) -> dict[str, Json]:
    """What the iperf3 package reads from a document without error; nothing where the document leaves out what that needs."""
    from iperf3 import TestResult

    try:
        known = TestResult(json.dumps(document))
    except (KeyError, IndexError, TypeError):
        return {}
    return {
        "sent_bytes": _count(known.sent_bytes),
        "received_bytes": _count(known.received_bytes),
        "retransmits": _count(known.retransmits),
        "mss": _count(known.tcp_mss_default) or None,
        "cpu_here": _share(known.local_cpu_total),
        "cpu_there": _share(known.remote_cpu_total),
    }


def _intervals(found: list[Json]) -> tuple[Interval, ...]:
    """In order; one that begins before its predecessor ended is left out (a server interrupted repeats its last, 3.12)."""
    kept: list[Interval] = []
    for one in found:
        streams = one["streams"]
        if not streams:
            continue
        begins = _amount(streams[0]["start"], "start")
        if kept and begins < kept[-1].start_s + kept[-1].seconds - _OVERLAP_S:
            continue
        kept.append(
            Interval(
                begins,
                max(_amount(stream["seconds"], "seconds") for stream in streams),
                sum(_amount(stream["bits_per_second"], "bits_per_second") for stream in streams),
                sum(int(_amount(stream["bytes"], "bytes")) for stream in streams),
                bool(streams[0].get("omitted", False)),
                **_of_streams(streams),
            )
        )
    return tuple(kept)


def _of_streams(streams: list[dict[str, Json]]) -> dict[str, Json]:
    """What one interval says of its streams, and what TCP_INFO told their sender."""
    rtts = _rtts(streams)
    retransmits = [_count(stream.get("retransmits")) for stream in streams]
    known = [count for count in retransmits if count is not None]
    return {
        "flows": tuple(int(_amount(stream["bytes"], "bytes")) for stream in streams),
        "rtt_ns": round(sum(rtts) / len(rtts)) if rtts else 0,
        "retransmits": sum(known) if known and len(known) == len(retransmits) else None,
        "window_bytes": max(_count(stream.get("snd_cwnd")) or 0 for stream in streams),
        "receive_window_bytes": max(_count(stream.get("snd_wnd")) or 0 for stream in streams),
    }


def _amount(value: Json, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {value}")
    return float(value)


def _count(value: Json) -> int | None:
    """A counter, or None: negative ones and those near 2^32 and 2^64 are iperf3's "unknown" seen through unsigned eyes."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    near_wrap = any(2**bits - 1024 <= value <= 2**bits for bits in (32, 64))
    return None if near_wrap else int(value)


def _share(percent: Json) -> float | None:
    known = isinstance(percent, int | float) and math.isfinite(percent) and percent >= 0
    return percent / 100 if known else None


def _rtts(streams: list[dict[str, Json]]) -> list[int]:
    """Smoothed RTTs (ns) a sender saw: `rtt` (us) of every interval and stream where it is sane; none at a receiver."""
    seen = [stream.get("rtt") for stream in streams]
    return [int(rtt) * 1000 for rtt in seen if isinstance(rtt, int | float) and 0 < rtt < 2**31]
