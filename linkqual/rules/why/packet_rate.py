"""Is it packets a second and not bits: a gateway, firewall or router that works on every packet? Pure."""

from __future__ import annotations

from linkqual.rules.why.facts import Facts
from linkqual.rules.why.reading import Fit, Reading, refuted
from linkqual.units import format_packet_rate

ENCRYPTS = ("ipsec", "ipsec-cbc", "wireguard", "macsec")
SAME = 0.1
APART = 2.0  # sizes differ by that factor before a constant number of packets says anything
BELOW = 0.9  # of what the line should carry at that size
GATEWAYS = "read the processors of the gateways while the load runs"
LOOK = "and run the search probe: equal packets a second at every size name them"


def readings(facts: Facts) -> list[Reading]:
    """Of a limit on packets; nothing is said where neither sizes nor a gateway give a reason to ask."""
    held = [one for one in facts.found if one.rate_bps and not one.limited and one.rate_bps < BELOW * one.maximum_bps]
    if len(held) < 2 or max(one.packet_bytes for one in held) < APART * min(one.packet_bytes for one in held):
        if set(ENCRYPTS) & set(facts.link.encapsulation):
            return [
                Reading(
                    "packet rate",
                    Fit.UNSEEN,
                    "the processor of a gateway is not seen from the ends",
                    decide=f"{GATEWAYS}, {facts.look('search', LOOK)}".rstrip(", "),
                )
            ]
        return []
    rates = {one.packet_bytes: (one.rate_bps or 0.0) / 8 / one.packet_bytes for one in held}
    low, high = min(rates.values()), max(rates.values())
    if high > (1 + SAME) * low:
        return [
            refuted(
                "packet rate",
                f"{format_packet_rate(low)} to {format_packet_rate(high)} at different sizes: it is not packets that are limited",
            )
        ]
    sizes = " and ".join(f"{size} bytes" for size in sorted(rates))
    said = f"about {format_packet_rate((low + high) / 2)} come through whether packets have {sizes}: something on the way works on every packet"
    evidence = (("search at several sizes", said),)
    return [
        Reading(
            "packet rate",
            Fit.FITS,
            said,
            evidence,
            "",
            "read the processors of gateways, firewalls and routers on the way while the load runs",
        )
    ]
