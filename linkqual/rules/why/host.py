"""Is it one of our own hosts: a core, a card, its slot? Pure."""

from __future__ import annotations

from linkqual.rules import hosts, seconds
from linkqual.rules.why.facts import Facts
from linkqual.rules.why.reading import Fit, Lines, Reading, refuted, unseen
from linkqual.stats import load_rates
from linkqual.units import format_count, format_rate

MORE = 1.15


def readings(facts: Facts) -> list[Reading]:
    """Of the hosts."""
    busy, dropped = hosts.busy(facts.load), hosts.dropped_early(facts.measurement)
    slot = hosts.slot_limit(facts.measurement, facts.link.contracted_bps(facts.direction))
    told = facts.load.cpu_near is not None or facts.load.cpu_far is not None
    if not (busy or dropped or slot):
        if not told:
            return [unseen("host", "iperf3 told nothing of the processors")]
        shares = [share for share in (facts.load.cpu_near, facts.load.cpu_far) if share is not None]
        return [
            refuted(
                "host", f"the busier end used {max(shares) * 100:.0f} % of a core, and neither host dropped packets"
            )
        ]
    evidence: Lines = ()
    if busy:
        evidence += (("processors", f"iperf3 used {busy}"),)
    if dropped:
        evidence += (("drops of the receiving host", dropped),)
    if slot:
        evidence += (("PCIe slot", slot),)
    evidence += _udp(facts)
    carried = facts.carried(1)
    if carried[2] == "UDP" and carried[0] > MORE * facts.ip(facts.got):
        evidence += (("UDP load", f"{format_rate(carried[0])} (IP) came through: the line carries more"),)
    said = " and ".join(
        [f"iperf3 used {busy}"] * bool(busy)
        + [f"the receiving host had no room for packets ({dropped})"] * bool(dropped)
        + [slot] * bool(slot)
    )
    return [
        Reading(
            "host",
            Fit.PROVEN if len(evidence) > 1 else Fit.FITS,
            f"the host is the limit, not the line: {said}",
            evidence,
            "",
            seconds.FASTER,
        )
    ]


def _udp(facts: Facts) -> Lines:
    """UDP loads whose receiving socket overflowed are kept apart from those that tell of the line."""
    lost = [one for one in facts.host_counts if one.host_lost]
    if not lost:
        return ()
    total = sum(one.host_lost for one in lost)
    most = max(load_rates.steady_bps(one) for one in lost)
    return (
        ("UDP load", f"the receiving socket itself dropped {format_count(total)} packets at {format_rate(most)} (IP)"),
    )
