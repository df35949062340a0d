"""Are both directions of a line equally long? One-way delays between two clocks whose offset has a bound. Floor 2, pure.

The difference of the smallest delays, D = forward - reverse, holds twice the offset of the clocks, so what is known of the line is
D +/- 2E (E: the bound of the offset, RFC 7679 section 3.7). Nothing is said within that. A route cannot be shorter than its fibre: a
known length bounds the difference without any clock; a length that the round trip, or one clock at both ends, excludes is not true and not used. An offset estimated from the packets would make both directions equal, and is not used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkqual.session.symmetry import ASYMMETRIC, SYMMETRIC, UNDETERMINED
from linkqual.units import format_duration

LEAST_NS, SHARE = 1_000_000, 0.1  # of the round trip: a difference worth the name is above both
FIBRE_NS_PER_KM = 4_870  # light in silica of index 1.46, the fastest in use; a hollow core is faster


@dataclass(frozen=True, slots=True)
class DelayDifference:
    """`verdict` "symmetric", "asymmetric" or "undetermined". The difference (forward less reverse) lies in low_ns to high_ns; None: no bound."""

    verdict: str
    measured_ns: int  # D, clock offset included
    threshold_ns: int
    low_ns: int | None = None
    high_ns: int | None = None
    by: str = ""  # "clocks", "fibre" or "both" made the interval; "contradiction": they exclude each other, so one of them is not true
    untrue: str = ""  # why a length that was given is not used

    def within(self, limit_ns: float) -> bool:
        """Whether the difference surely is at most that, either way."""
        return self.low_ns is not None and self.high_ns is not None and max(-self.low_ns, self.high_ns) <= limit_ns

    def beyond(self, limit_ns: float) -> bool:
        """Whether it surely is more, one way."""
        return self.low_ns is not None and self.high_ns is not None and max(self.low_ns, -self.high_ns) > limit_ns


def judge(
    forward_ns: int, reverse_ns: int, round_trip_ns: int, error_ns: int | None, fibre_km: float | None = None
) -> DelayDifference:
    """Of the smallest delays of one run. `error_ns`: bound of the offset between both clocks, None: not known.

    `fibre_km`: length of the shortest fibre either direction may take.
    """
    apart = forward_ns - reverse_ns
    threshold = max(LEAST_NS, round(SHARE * round_trip_ns))
    most = most_ns(round_trip_ns, fibre_km)
    untrue = ""
    if fibre_km is not None and most is None:
        light = format_duration(round(2 * FIBRE_NS_PER_KM * fibre_km))
        untrue = (
            f"light takes {light} through it there and back, and the round trip is {format_duration(round_trip_ns)}"
        )
    elif most is not None and error_ns == 0 and abs(apart) > most:
        untrue = f"both directions could differ by {format_duration(most)} at most, and one clock shows {format_duration(abs(apart))}"
        most = None
    bounds = {
        "clocks": None if error_ns is None else (apart - 2 * error_ns, apart + 2 * error_ns),
        "fibre": None if most is None else (-most, most),
    }
    known = {name: bound for name, bound in bounds.items() if bound is not None}
    if not known:
        return DelayDifference(UNDETERMINED, apart, threshold, untrue=untrue)
    low, high = max(low for low, _ in known.values()), min(high for _, high in known.values())
    if low > high:
        return DelayDifference(UNDETERMINED, apart, threshold, by="contradiction")
    by = next((name for name, bound in known.items() if bound == (low, high)), "both")
    found = DelayDifference(UNDETERMINED, apart, threshold, low, high, by, untrue)
    verdict = ASYMMETRIC if found.beyond(threshold) else SYMMETRIC if found.within(threshold) else UNDETERMINED
    return replace(found, verdict=verdict)


def most_ns(round_trip_ns: int, fibre_km: float | None) -> int | None:
    """How far both directions can differ when each is at least as long as its fibre; None without a length, or one that is too long to be true."""
    if fibre_km is None:
        return None
    most = round_trip_ns - round(2 * FIBRE_NS_PER_KM * fibre_km)
    return most if most >= 0 else None
