"""What `tc` and `nft` are told of a link's rate: token buckets, one for all, one a flow or one a member of a bundle. Floor 3, pure.

The kernel decides which flow is which: the firewall writes the class into the packet's priority, the scheduler obeys it.
"""

from __future__ import annotations

from collections.abc import Iterator

from linkqual.bottleneck import OVERHEAD, Rate

FLOW_CLASSES = 256  # flows limited by themselves at once; more of them share
_ETHERNET = 14  # bytes of a veth frame that its qdisc counts already
_ALL, _APART = 1, 2  # handles
_REST = 1  # class of what is neither UDP nor TCP, where flows are told apart


def queues(interface: str, rate: Rate, mtu: int, framed: bool) -> Iterator[str]:
    """Lines for `tc -batch`. `framed`: its packets carry an Ethernet header (a tunnel's do not)."""
    counted = OVERHEAD[rate.counts] - (_ETHERNET if framed else 0)
    packet = mtu + OVERHEAD[rate.counts]
    root = f"qdisc add dev {interface} root handle {_ALL}: stab overhead {counted} linklayer ethernet"
    if rate.members > 1:
        yield f"{root} htb default {_REST}"
        yield from _classes(interface, _ALL, rate, packet, rate.members)
        return
    # a policer is a bucket with almost no room to wait. What waits there passes too, but not at once: half of it counts as bucket
    room = 2 * packet if rate.policer else rate.buffer_bytes
    burst = max(packet, rate.bucket_bytes - packet) if rate.policer else rate.bucket_bytes
    yield f"{root} tbf rate {rate.bps}bit burst {burst} limit {room}"
    if rate.per_flow_bps:
        yield f"qdisc add dev {interface} parent {_ALL}:1 handle {_APART}: htb default {_REST}"
        yield from _classes(interface, _APART, rate, packet, FLOW_CLASSES + _REST)


def _classes(interface: str, handle: int, rate: Rate, packet: int, count: int) -> Iterator[str]:
    """`count` buckets side by side. Such a class lets its last packet go on credit: a bucket of one packet more than its burst."""
    room = 2 * packet if rate.policer else rate.buffer_bytes
    burst = max(packet, rate.bucket_bytes - packet * (2 if rate.policer else 1))
    bps = rate.of_one.bps
    for number in range(1, count + 1):
        yield (
            f"class add dev {interface} parent {handle}: classid {handle}:{number:x} "
            f"htb rate {bps}bit ceil {bps}bit burst {burst} cburst {burst} quantum {packet}"
        )
        yield f"qdisc add dev {interface} parent {handle}:{number:x} bfifo limit {room}"


def spreading(interface: str, rate: Rate, seed: int) -> str:
    """A table for `nft -f` that gives each packet leaving by `interface` the class of its flow or member; "" when there is one for all."""
    if rate.members > 1:
        return _table(interface, "", "\n".join(_hashing(rate.members, seed)))
    if rate.per_flow_bps:
        return _table(interface, _FLOWS, _TELLING)
    return ""


def _hashing(members: int, seed: int) -> Iterator[str]:
    """As `bottleneck.flow_hash`; what has no ports goes by its addresses."""
    for version, ip in ((4, "ip"), (6, "ip6")):
        for ports, which in ((" . th sport . th dport", "{ tcp, udp }"), ("", "!= { tcp, udp }")):
            yield (
                f"    meta nfproto ipv{version} meta l4proto {which} meta priority set "
                f"jhash {ip} saddr . {ip} daddr{ports} mod {members} seed {seed:#x} offset {_ALL << 16 | 1:#x}"
            )


_FLOWS = """
  map flows {
    typeof meta nfproto . meta l4proto . th sport . th dport : meta priority
    size 65535
    flags dynamic
  }"""
# each flow that comes gets the next class and keeps it
_TELLING = f"""    meta l4proto != {{ tcp, udp }} meta priority set {_APART}:{_REST} accept
    meta priority set meta nfproto . meta l4proto . th sport . th dport map @flows accept
    meta priority set numgen inc mod {FLOW_CLASSES} offset {_APART << 16 | _REST + 1:#x}
    add @flows {{ meta nfproto . meta l4proto . th sport . th dport : meta priority }}"""


def _table(interface: str, sets: str, rules: str) -> str:
    return f"""table inet spread-{interface} {{{sets}
  chain spread {{
{rules}
  }}
  chain out {{
    type filter hook postrouting priority 0
    oifname "{interface}" jump spread
  }}
}}
"""
