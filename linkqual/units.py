"""Durations, rates, ratios and sizes: parse and print. The only place that knows "ms", "Mbit/s" and "%".

Inside linkqual durations are integer nanoseconds, rates integer bits per second, sizes integer bytes and ratios floats.
Rates and sizes are SI (k = 1000) unless an IEC prefix (KiB, MiB, GiB) says otherwise; bits and bytes are never guessed.
Floor 0, pure.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo
from decimal import Decimal, InvalidOperation

from linkqual.errors import InputError

NS_PER_S = 1_000_000_000

_SI = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_LEAST_MISSING = 5e-13  # from 1: less is rounding
_TOO_LARGE = Decimal("1e18")
_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*\Z")

_DURATION = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": NS_PER_S,
    "sec": NS_PER_S,
    "min": 60 * NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86400 * NS_PER_S,
    "w": 7 * 86400 * NS_PER_S,
}
_BIT_RATE = {p + u: f for p, f in _SI.items() for u in ("bit/s", "bps", "b/s")}
_BYTE_RATE = {p + u: f * 8 for p, f in (_SI | _IEC).items() for u in ("B/s", "Byte/s")}
_SHORT_RATE = {p: f for p, f in _SI.items() if p}  # iperf3's and carriers' habit: "10G" is a bit rate
_SIZE = {p + u: f for p, f in (_SI | _IEC).items() for u in ("B", "byte", "bytes")} | {"": 1}
_SHORT_SIZE = _SHORT_RATE | _IEC  # a size has no bits to mistake its bytes for: "20G" as for a rate
_PACKET_RATE = {p + u: f for p, f in _SI.items() for u in ("pps", "/s", "")}
_RATIO = {"": Decimal(1), "%": Decimal("0.01"), "ppm": Decimal("0.000001")}


def _split(text: object, kind: str, example: str) -> tuple[Decimal, str]:
    match = _NUMBER.match(str(text))
    try:
        if match and (number := Decimal(match[1].replace("_", ""))).copy_abs() < _TOO_LARGE:
            return number, match[2]
    except InvalidOperation:
        pass
    raise InputError(f"{text!r} is no {kind}", hint=f"write it like {example}")


def _scaled(text: object, kind: str, example: str, table: dict[str, int]) -> int:
    number, unit = _split(text, kind, example)
    if unit not in table and (
        unit or number
    ):  # nothing is nothing in every unit: whoever asked says what is wrong with it
        problem = f"unknown unit {unit!r} of a {kind}" if unit else f"a {kind} needs its unit"
        raise InputError(f"{text!r}: {problem}", hint=f"write it like {example}")
    if not number.is_finite() or number < 0:
        raise InputError(f"{text!r}: a {kind} is finite and not negative", hint=f"write it like {example}")
    return int((number * table.get(unit, 1)).to_integral_value())


def parse_duration_ns(text: object) -> int:
    """Nanoseconds of "250 us", "12ms", "1.5 s", "3 h". A bare number is refused, since its unit would be a guess; but for 0."""
    return _scaled(text, "duration", "12 ms or 1.5 s", _DURATION)


def parse_rate_bps(text: object) -> int:
    """Bits per second of "10 Gbit/s", "10G", "940 Mbps", "1.25 GB/s" (bytes: times 8)."""
    return _scaled(text, "rate", "10 Gbit/s or 800 Mbit/s", _BIT_RATE | _BYTE_RATE | _SHORT_RATE)


def parse_size_bytes(text: object) -> int:
    """Bytes of "1500", "64 KiB", "1 MB", "20G" (bytes too)."""
    return _scaled(text, "size", "1500 B, 64 KiB, 500 MB or 20 GB", _SIZE | _SHORT_SIZE)


def parse_packet_rate(text: object) -> int:
    """Packets per second of "20000", "20 kpps", "20k/s"."""
    return _scaled(text, "packet rate", "20 kpps or 1000/s", _PACKET_RATE)


def parse_ratio(text: object) -> float:
    """A ratio between 0 and 1 of "1e-5", "99.9 %", "10 ppm"."""
    number, unit = _split(text, "ratio", "1e-5 or 99.9 %")
    if unit not in _RATIO:
        raise InputError(f"{text!r}: unknown unit {unit!r} of a ratio", hint="write it like 1e-5 or 99.9 %")
    value = number * _RATIO[unit]
    if not value.is_finite() or not 0 <= value <= 1:
        raise InputError(f"{text!r}: a ratio lies between 0 and 1 (0 % and 100 %)", hint="write it like 1e-5 or 99.9 %")
    return float(value)


def parse_factor(text: object) -> float:
    """How many times as much, at least 1, of "1.25", "1.25 x"."""
    number, unit = _split(text, "factor", "1.25")
    if unit not in ("", "x", "times") or not number.is_finite() or number < 1:
        raise InputError(f"{text!r} is no factor of 1 or more", hint="write it like 1.25")
    return float(number)


def _short(value: float, digits: int = 4) -> str:
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:.0f}" if abs(value) >= 1 else text
    return text


def format_duration(ns: float | None) -> str:
    """Four digits and the unit a reader expects: "11.2 ms", "850 ns", "2 min 05 s", "3 h 20 min"."""
    if ns is None:
        return "—"
    sign, size = ("-" if ns < 0 else ""), abs(ns)
    for unit, factor in (("ns", 1), ("µs", 10**3), ("ms", 10**6), ("s", NS_PER_S)):
        value = size / factor
        if value < (999.95 if unit != "s" else 119.95):
            return f"{sign}{_short(value)} {unit}"
    seconds = round(size / NS_PER_S)
    if seconds < 3600:
        return f"{sign}{seconds // 60} min {seconds % 60:02d} s"
    if seconds < 86400:
        return f"{sign}{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{sign}{seconds // 86400} d {seconds % 86400 // 3600} h"


def _prefixed(value: float | None, unit: str) -> str:
    if value is None:
        return "—"
    for prefix, factor in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if abs(value) >= factor * 0.99995:
            return f"{_short(value / factor)} {prefix}{unit}"
    return f"{_short(value)} {unit}"


def format_rate(bps: float | None) -> str:
    """ "9.41 Gbit/s"."""
    return _prefixed(bps, "bit/s")


def format_size(size: float | None) -> str:
    """ "1.5 kB" (SI)."""
    return _prefixed(size, "B")


def format_packet_rate(pps: float | None) -> str:
    """ "20 kpps"."""
    return _prefixed(pps, "pps")


def format_count(count: float | None) -> str:
    """ "332,858"."""
    return "—" if count is None else f"{round(count):,}"


def format_ratio(ratio: float | None) -> str:
    """Small ratios as a power of ten ("7.5e-6"), others in percent ("94.1 %"); what is not all is never 100 %."""
    if ratio is None:
        return "—"
    if ratio == 0:
        return "0"
    if abs(ratio) < 1e-3:
        mantissa, exponent = f"{ratio:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    missing = 1 - ratio
    if _LEAST_MISSING < missing < 5e-4:  # "99.999 %": as many digits as show that something is missing
        return f"{ratio * 100:.{max(2, math.ceil(-math.log10(missing)) - 1)}f}".rstrip("0") + " %"
    return f"{_short(ratio * 100)} %"


def format_value(value: float | None, unit: str) -> str:
    """A value in a metric's base unit ("ns", "bit/s", "ratio") as people read it."""
    known = {"ns": format_duration, "bit/s": format_rate, "ratio": format_ratio}.get(unit)
    if known is not None or value is None:
        return known(value) if known is not None else "—"
    number = f"{value:.4g}" if abs(value) < 9999.5 or not math.isfinite(value) else f"{value:,.0f}"
    return f"{number} {unit}".rstrip()


def format_instant(ns: int, zone: tzinfo = UTC) -> str:
    """RFC 3339 with nine digits: "2026-11-30T07:17:56.123456789Z"."""
    seconds, fraction = divmod(ns, NS_PER_S)
    moment = datetime.fromtimestamp(seconds, zone)
    offset = moment.strftime("%z")
    tail = "Z" if zone is UTC else f"{offset[:3]}:{offset[3:5]}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09d}{tail}"
