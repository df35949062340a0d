"""By how many bytes an MTU differs, and which header that is: layer 2 or layer 3 counted, or a tunnel. Floor 1, pure."""

from __future__ import annotations

LEAST, MOST = 4, 80  # bytes
_HEADERS = {
    4: ("an 802.1Q tag or an MPLS label",),
    8: ("two tags (QinQ)", "two MPLS labels", "PPPoE"),
    12: ("three MPLS labels",),
    14: ("the Ethernet header",),
    18: ("the Ethernet header and its check sequence (FCS)", "the Ethernet header and an 802.1Q tag"),
    20: ("an outer IPv4 header (IP in IP)",),
    22: ("the Ethernet header, an 802.1Q tag and the FCS",),
    24: ("GRE over IPv4",),
    26: ("the Ethernet header, two tags and the FCS",),
    28: ("GRE with a key over IPv4", "IPv4 and UDP"),
    32: ("MACsec",),
    36: ("L2TP over IPv4",),
    38: ("Ethernet within GRE over IPv4",),
    40: ("an outer IPv6 header",),
    42: ("Ethernet within GRE with a key over IPv4",),
    44: ("GRE over IPv6",),
    50: ("VXLAN over IPv4",),
    54: ("VXLAN over IPv4 with an inner tag",),
    60: ("WireGuard over IPv4",),
    70: ("VXLAN over IPv6",),
    80: ("WireGuard over IPv6",),
}
_ESP = range(52, 74)  # tunnel mode with its padding, RFC 4303: by cipher


def explained(fewer_bytes: int) -> str:
    """ "an 802.1Q tag or an MPLS label" of 4; "" where no usual header is as long, or none at all."""
    found = [*_HEADERS.get(fewer_bytes, ())]
    if fewer_bytes in _ESP:
        found.append("an IPsec tunnel (ESP)")
    return " or ".join(found) if LEAST <= fewer_bytes <= MOST else ""
