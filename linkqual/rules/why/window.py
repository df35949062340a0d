"""Is it the window: no more bytes in flight than one end allows, whatever the line could carry? RFC 6349 section 3.3.1. Pure."""

from __future__ import annotations

from linkqual.rules.why.facts import Facts
from linkqual.rules.why.reading import Fit, Lines, Reading, refuted, unseen
from linkqual.stats.throughput import bdp_bytes, window_limit
from linkqual.units import format_duration, format_rate, format_ratio, format_size

USED = (0.7, 1.1)  # of the window in flight, on average, when it is the limit
QUEUED = 1.25  # of the smallest round trip: with more than that a queue is being filled
QUEUED_NS = 1_000_000
RESENT = 1e-4  # per packet: with more it is loss that sets the window
MORE = 1.15  # one UDP flow gets that much more through: flows are not limited, this stream is


def readings(facts: Facts) -> list[Reading]:
    """Of the window."""
    rtt, base, window = facts.rtt_ns, facts.base_rtt_ns, facts.load.receive_window_bytes
    if rtt is None or base is None:
        return [unseen("window", "TCP told no round trip")]
    why_not = _why_not(facts, rtt, base)
    if why_not:
        return [refuted("window", why_not)]
    flight = bdp_bytes(facts.each, rtt)
    carried = facts.one_flow_udp
    more = carried is not None and carried >= MORE * facts.ip(facts.each)
    if window is None:
        return [_unknown(facts, flight, rtt, more)]
    used = flight / window
    if used < USED[0]:
        return [
            refuted(
                "window",
                f"{format_size(flight)} in flight are {format_ratio(used)} of the {format_size(window)} the receiver offers",
            )
        ]
    if used > USED[1]:
        return [
            unseen(
                "window",
                f"{format_size(flight)} in flight are more than the {format_size(window)} the receiver was seen to offer",
            )
        ]
    evidence: Lines = (
        (
            "window",
            f"the receiver offers {format_size(window)} at most, and {format_size(flight)} ({format_ratio(used)}) were in flight",
        ),
        (
            "window / round trip",
            f"{format_size(window)} in {format_duration(rtt)} = {format_rate(window_limit(window, rtt))} a stream; {format_rate(facts.each)} were measured",
        ),
        (
            "round trip and losses",
            f"{format_duration(rtt)} under load, {format_duration(base)} at least: no queue; {facts.load.retransmits or 0} packets resent",
        ),
    )
    if more:
        evidence += (
            ("one UDP flow", f"{format_rate(carried)} (IP) came through: the line lets a single flow have more"),
        )
    thin = "" if more else "no UDP flow was seen to carry more"
    return [
        Reading(
            "window", Fit.PROVEN if more else Fit.FITS, _sentence(facts, window, rtt), evidence, thin, _next(facts, rtt)
        )
    ]


def explains(facts: Facts) -> bool:
    """Whether the window in itself accounts for the rate of the load."""
    return readings(facts)[0].fit >= Fit.FITS


def _why_not(facts: Facts, rtt: int, base: int) -> str:
    if facts.resent is not None and facts.resent > RESENT:
        return f"{format_ratio(facts.resent)} of the packets were resent: losses set the rate before the window does"
    if rtt > QUEUED * base + QUEUED_NS:
        return f"the round trip grew from {format_duration(base)} to {format_duration(rtt)}: more is in flight than the line carries"
    return ""


def _unknown(facts: Facts, flight: float, rtt: int, more: bool) -> Reading:
    """The offered window is not known: only that nothing else stopped the stream speaks for it."""
    said = f"no more than {format_size(flight)} of each stream were in flight over {format_duration(rtt)}, with nothing lost and no queue"
    fit = Fit.FITS if more else Fit.UNSEEN
    evidence = (("one UDP flow", f"{format_rate(facts.one_flow_udp)} (IP) came through"),) if more else ()
    return Reading("window", fit, said, evidence, "the window the receiver offered is not known", _next(facts, rtt))


def _sentence(facts: Facts, window: int, rtt: int) -> str:
    return (
        f"the window of {format_size(window)} over a round trip of {format_duration(rtt)} allows {format_rate(window_limit(window, rtt))} a stream"
        + (
            f", {format_rate(facts.load.streams * window_limit(window, rtt))} for all {facts.load.streams}"
            if facts.load.streams > 1
            else ""
        )
    )


def _next(facts: Facts, rtt: int) -> str:
    rate = facts.link.contracted_bps(facts.direction) or facts.ip(facts.allowed)
    need = bdp_bytes(rate, rtt)
    return (
        f"one stream needs a window of {format_size(need)} for {format_rate(rate)} at {format_duration(rtt)}: raise net.ipv4.tcp_rmem and tcp_wmem "
        "(their third value, about twice that) and the socket buffers the program sets at both ends, or use more streams; the line is not at fault"
    )
