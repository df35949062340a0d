"""Is it overhead: smaller packets than the contract's MTU allows, or what the line wraps around them? Pure."""

from __future__ import annotations

from linkqual.rules import loads
from linkqual.rules.why.facts import NEARLY, Facts
from linkqual.rules.why.reading import Fit, Reading, refuted, unseen
from linkqual.stats.overhead import added_bytes, words, wrapped_goodput
from linkqual.stats.throughput import OVERHEAD_BYTES, header_goodput, tcp_payload
from linkqual.units import format_rate, format_ratio

LIKELY = 0.9  # of what the headers allow: no wrapping in use takes more than a tenth of full packets
TOO_MUCH = 1.02
SMALLER = 8  # bytes by which packets stay below the MTU before it matters


def readings(facts: Facts) -> list[Reading]:
    """Of overhead."""
    rate = facts.link.contracted_bps(facts.direction)
    if rate is None or facts.subject == "flow":
        return [refuted("overhead", "it takes the same of one flow as of many")]
    mtu, kinds = facts.link.mtu, facts.link.encapsulation
    if facts.load.mss and mtu and facts.mtu < mtu - SMALLER:
        return [_small_packets(facts, rate, mtu)]
    if kinds:
        return [_declared(facts, rate)]
    share = facts.got / facts.allowed
    if share < LIKELY:
        return [
            refuted(
                "overhead",
                f"{format_ratio(1 - share)} are missing, more than any wrapping takes of packets of {facts.mtu} bytes",
            )
        ]
    if facts.resent:
        return [unseen("overhead", "packets were resent, so it is not known what a wrapping would leave")]
    wire = rate * tcp_payload(facts.mtu) / facts.got - facts.mtu - OVERHEAD_BYTES[facts.link.rate_counts]
    return [
        Reading(
            "overhead", Fit.POSSIBLE,
            f"{wire:.0f} bytes around each packet of {facts.mtu} would account for it",
            decide="ask what the line wraps packets in (MACsec, GRE, IPsec, a VLAN tag), and say so with `encapsulation:` in the link file",
        )
    ]  # fmt: skip


def _small_packets(facts: Facts, rate: float, mtu: int) -> Reading:
    sent = header_goodput(rate, facts.mtu, counts=facts.link.rate_counts)
    gap = f"TCP sent packets of {facts.mtu} bytes where the contract has an MTU of {mtu}"
    leave = f"headers then leave {format_rate(sent)} instead of {format_rate(facts.allowed)}"
    if not NEARLY * sent <= facts.got <= TOO_MUCH * sent:
        return refuted("overhead", f"{gap}; {leave}, but {format_rate(facts.got)} came through")
    evidence = (
        ("segment size", f"{facts.load.mss} bytes: {gap}"),
        ("goodput", f"{leave}; {format_rate(facts.got)} came through"),
    )
    decide = f"set the MTU of both hosts to {mtu}, and check with the path probe that the line carries it"
    return Reading("overhead", Fit.PROVEN, f"{gap}: {leave}", evidence, "", decide)


def _declared(facts: Facts, rate: float) -> Reading:
    kinds, mtu = facts.link.encapsulation, facts.mtu
    left = wrapped_goodput(rate, mtu, kinds, facts.link.rate_counts)
    added = added_bytes(mtu, kinds)
    takes = f"{words(kinds)} adds {added} bytes to each packet of {mtu}: that leaves {format_rate(left)} of {format_rate(facts.allowed)}"
    if facts.got >= loads.WHOLE * left:
        evidence = (
            ("link file", f"encapsulation: {', '.join(kinds)}"),
            ("goodput", f"{takes}; {format_rate(facts.got)} came through, all of it"),
        )
        return Reading(
            "overhead",
            Fit.PROVEN,
            takes,
            evidence,
            "",
            "larger packets lose less to it: raise the MTU where the line carries it",
        )
    rest = left - facts.got
    return refuted(
        "overhead",
        f"{takes}; {format_rate(facts.got)} came through, so {format_rate(rest)} more are missing than it takes",
    )
