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
    if not (busy or dropped or slot):
        return [_at_rest(facts)]
    seen = (
        ("processors", f"iperf3 used {busy}" if busy else ""),
        ("drops of the receiving host", f"the receiving host had no room for packets ({dropped})" if dropped else ""),
        ("PCIe slot", slot),
    )
    found = tuple((what, said) for what, said in seen if said)
    evidence = (*found, *_udp(facts), *_line_carries(facts))
    said = " and ".join(said for _, said in found)
    fit = Fit.PROVEN if len(evidence) > 1 else Fit.FITS
    return [Reading("host", fit, f"the host is the limit, not the line: {said}", evidence, "", seconds.FASTER)]


def _at_rest(facts: Facts) -> Reading:
    """iperf3 was not short of anything; whether the hosts were shows in our own load."""
    worst = facts.starved
    if worst is not None:
        sent, asked = format_rate(load_rates.offered_bps(worst)), format_rate(worst.asked_bps)
        said = f"the sending host could send only {sent} of {asked} of UDP: other programs may have taken its processors from TCP too"
        return Reading(
            "host",
            Fit.POSSIBLE,
            said,
            (("UDP load", said),),
            "",
            f"end what else runs on both hosts, and measure again; {seconds.FASTER}",
        )
    shares = [share for share in (facts.load.cpu_near, facts.load.cpu_far) if share is not None]
    if not shares:
        return unseen("host", "iperf3 told nothing of the processors")
    return refuted("host", f"the busier end used {max(shares) * 100:.0f} % of a core, and neither host dropped packets")


def _line_carries(facts: Facts) -> Lines:
    rate, _, what = facts.carried(1)
    if what != "UDP" or rate <= MORE * facts.ip(facts.got):
        return ()
    return (("UDP load", f"{format_rate(rate)} (IP) came through: the line carries more"),)


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
