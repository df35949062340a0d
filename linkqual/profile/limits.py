"""Limits as written in a profile, and what they come to on one line.

    1e-5 · 99.9 % · 12 ms · 400 Mbit/s        a value in the metric's unit
    rtt_budget · 1.2 x rtt_budget             a fact of the line, with a factor
    95 % of goodput · 95 % of cir             a share of a fact of the line
    rtt_budget or 5 ms                        the fact when known, else the value
    agreed · agreed or 1e-3                   what is agreed of each service (`profile.agreed`), else the value
    1.2 x ideal                               of a burst: what the contract lets it take (below)
    keep all · keep EF, AF41                  markings that must arrive as they were sent
    symmetric                                 both directions take the same routers and links
    mtu · mtu or 1500 B                       the IP packets the line was sold to carry
    none                                      measured and shown, never judged

Facts: `rtt_budget` (contracted round trip), `mtu` (contracted, of IP packets), `cir` (contracted rate of that direction) and `goodput` (the TCP payload the
headers leave of that rate at the line's MTU, RFC 6349 section 4.1.1). `ideal` is the time a burst takes at the contracted rate and
one round trip, the smallest that was measured: the plan knows the first part only, `rules.bursts` the whole. Floor 2, pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from linkqual.errors import InputError
from linkqual.model import Direction, Link
from linkqual.session.marking import wanted
from linkqual.stats.throughput import header_goodput
from linkqual.units import (
    format_count,
    format_duration,
    format_rate,
    parse_duration_ns,
    parse_factor,
    parse_rate_bps,
    parse_ratio,
    parse_size_bytes,
)

NONE = "none"
IDEAL = "ideal"
SYMMETRIC = "symmetric"
LEAST_RATIO = 1e-12  # three million million good packets prove it
ASSUMED_MTU = 1500  # where the line's MTU is not given
_FACTS = {
    "ns": ("rtt_budget", "ideal", "agreed"),
    "bit/s": ("goodput", "cir"),
    "ratio": ("agreed",),
    "times": (),
    "B": ("mtu",),
}
_READ: dict[str, Callable[[object], float]] = {
    "ns": parse_duration_ns,
    "bit/s": parse_rate_bps,
    "ratio": parse_ratio,
    "times": parse_factor,
    "B": parse_size_bytes,
}
_SHOW: dict[str, Callable[[float], str]] = {
    "rtt_budget": format_duration,
    "mtu": lambda size: f"{format_count(size)} bytes",
}
_TERM = re.compile(
    r"(?:(?P<percent>\d+(?:\.\d+)?)\s*%\s*of\s+|(?P<factor>\d+(?:\.\d+)?)\s*[x×*]\s*)?(?P<fact>[a-z][a-z_]*)\Z"
)
ALLOWED = {
    "ns": "a duration such as 12 ms, 'rtt_budget', '1.2 x rtt_budget', 'rtt_budget or 5 ms', '1.2 x ideal' (bursts), or none",
    "bit/s": "a rate such as 9 Gbit/s, '95 % of goodput', '95 % of cir', '95 % of goodput or 900 Mbit/s', or none",
    "ratio": "a ratio such as 1e-5 or 0.1 %, or none",
    "times": "how many times as much, such as 1.25, or none",
    "B": "a size such as 1500 B, 0 B (nothing may be missing), 'mtu', 'mtu or 1500 B', or none",
    "marking": "keep all, keep EF, AF41 (or ECT(0), CE), or none",
    "links": "symmetric, or none",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """`factor` times `fact` when the line has it, else `value`; both None: not judged. `text` is what the profile says."""

    text: str
    fact: str | None = None
    factor: float = 1.0
    value: float | None = None


def parse(text: str, unit: str) -> Limit:
    """A limit of a metric in `unit` ("ns", "bit/s", "ratio", "marking", "links"); InputError says what is wrong and what is allowed."""
    words = " ".join(text.split())
    if words == NONE:
        return Limit(NONE)
    if unit == "marking":
        wanted(words)
        return Limit(words, value=0)
    if unit == "links":
        if words != SYMMETRIC:
            raise InputError(f"{words!r}: routes are the same or they are not", ALLOWED[unit])
        return Limit(words, value=0)
    first, _, fallback = words.partition(" or ")
    term = _TERM.match(first)
    if term is None:
        if fallback:
            raise InputError(f"{words!r}: 'or' follows a fact of the line, not a value", ALLOWED[unit])
        return Limit(words, value=_value(first, unit))
    fact = term["fact"]
    if fact not in _FACTS[unit]:
        raise InputError(f"{words!r}: a limit in {unit} knows no {fact!r}", ALLOWED[unit])
    factor = float(term["percent"]) / 100 if term["percent"] else float(term["factor"] or 1)
    if factor <= 0:
        raise InputError(f"{words!r}: a factor of 0 can never be judged", "more than 0")
    if fact == "goodput" and factor > 1:
        raise InputError(f"{words!r}: no line carries more than the headers leave", "up to 100 % of goodput")
    return Limit(words, fact, factor, _value(fallback, unit) if fallback else None)


def _value(text: str, unit: str) -> float:
    try:
        value = _READ[unit](text)
    except InputError as error:
        raise InputError(error.message, ALLOWED[unit]) from None
    if value == 0 and unit != "B":
        raise InputError(
            f"{text!r}: a limit of 0 can be proven by no number of packets", f"more than 0: {ALLOWED[unit]}"
        )
    if unit == "ratio" and value < LEAST_RATIO:
        raise InputError(
            f"{text!r}: more packets than a line carries in years", f"at least {LEAST_RATIO:g}: {ALLOWED[unit]}"
        )
    if unit == "ratio" and value == 1:
        raise InputError(f"{text!r}: a limit of 100 % is kept by every line", "less than 100 %")
    return value


def allowed_goodput_bps(link: Link, direction: Direction, ip_version: int = 4) -> float | None:
    """TCP payload per second that the headers leave of the contracted rate; None when no rate was contracted."""
    rate = link.contracted_bps(direction)
    if rate is None:
        return None
    mtu = link.mtu or ASSUMED_MTU
    return header_goodput(rate, mtu, ip_version, timestamps=True, counts=link.rate_counts)


def resolve(
    limit: Limit, link: Link, direction: Direction, ip_version: int = 4, ideal_ns: int | None = None
) -> tuple[float | None, str]:
    """What the limit comes to on this line (base unit) and the sentence that says how; None: not judged.

    `ideal_ns`: of a burst at the contracted rate, without its round trip.
    """
    if limit.fact is None:
        return limit.value, ""
    if limit.fact == IDEAL and ideal_ns is not None:
        said = f"{limit.factor:g} x ({format_duration(ideal_ns)} at the contracted rate + the smallest round trip measured)"
        return ideal_ns * limit.factor, f"{limit.text} = {said}"
    known = _fact(limit.fact, link, direction, ip_version)
    if known is not None:
        show = _SHOW.get(limit.fact, format_rate)
        assumed = f" (MTU {ASSUMED_MTU} assumed)" if limit.fact == "goodput" and link.mtu is None else ""
        return known * limit.factor, f"{limit.text} = {show(known * limit.factor)}{assumed}"
    if limit.value is not None:
        return limit.value, f"{limit.text}: {missing(limit.fact)}, so the value stands"
    return None, f"{limit.text}: {missing(limit.fact)}, so it is measured and not judged"


def missing(fact: str) -> str:
    """How to say that a fact of the line is not known, with the option that gives it."""
    words = {"rtt_budget": "no RTT budget is known (--rtt-budget)", "mtu": "no MTU is agreed (--mtu)"}
    return words.get(fact, "no contracted rate is known (--cir)")


def _fact(fact: str, link: Link, direction: Direction, ip_version: int) -> float | None:
    if fact == "rtt_budget":
        return link.rtt_budget_ns
    if fact == "mtu":
        return link.mtu
    if fact == "cir":
        return link.contracted_bps(direction)
    return allowed_goodput_bps(link, direction, ip_version)
