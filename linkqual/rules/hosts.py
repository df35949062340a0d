"""What the two hosts say they dropped themselves: which counters are of this measurement, and which only may be.

Floor 2, pure.
"""

from __future__ import annotations

import re

from linkqual.model import Conditions, Direction, EndConditions, Measurement, ThroughputResult
from linkqual.units import format_count, format_rate

BUSY = 0.9  # of the cores a load can use: beyond it the host may be what limits
_THREADS_SINCE = (3, 16)  # from this iperf3 on each stream has a thread of its own, before one core carries all
_UDP = ("RcvbufErrors", "InErrors", "MemErrors")
_RECEIVING = ("rx_fifo", "ingress_drops")
_SENDING = ("tx_dropped", "tx_fifo", "qdisc_drops")
OWN = "socket_drops"  # of the probe's own socket, which hears this session's peer alone

Counters = dict[str, int]


def told(end: EndConditions) -> bool:
    """Whether the host of this end told its counters, besides those of the probe's own process."""
    return any(name not in (OWN, "drops_before_peer") for name in end.drops)


def received_drops(end: EndConditions) -> Counters:
    """Counters of packets this end dropped after the line delivered them, that may be this measurement's or another's.

    Before any socket saw them (softnet, receive FIFO, the card's rings); and the UDP counters of the host where the probe's own
    socket told nothing. `rx_dropped` is left out: it also counts frames of unknown protocols.
    """
    found = {"softnet_dropped": end.drops.get("softnet_dropped", 0)} | _named(end, _RECEIVING) | _card(end, sends=False)
    if OWN not in end.drops:
        for kind in ("Udp", "Udp6"):
            full = {f"{kind}{name}": end.drops.get(f"{kind}{name}", 0) for name in _UDP}
            most = max(full, key=lambda name: full[name])
            found[most] = max(full[most] - end.drops.get(f"{kind}InCsumErrors", 0), 0)  # damaged ones are the line's
    return {name: count for name, count in found.items() if count}


def sent_drops(end: EndConditions) -> Counters:
    """Counters of packets this end dropped after the program handed them over, that it was not told of.

    What the queue refused to the program's face never left, and is not lost.
    """
    found = _named(end, _SENDING) | _card(end, sends=True)
    told = end.counters.get("queue_refusals", 0)
    for name in [name for name in found if name.endswith("qdisc_drops")]:
        told, found[name] = max(told - found[name], 0), max(found[name] - told, 0)
    return {name: count for name, count in found.items() if count}


def dropped_unheard(state: Conditions, direction: Direction) -> int:
    """Packets of this direction that a host may have dropped at most, before the receiving socket saw them or behind the sending one."""
    forward = direction is Direction.FORWARD
    sender, receiver = (state.near, state.far) if forward else (state.far, state.near)
    return sum(received_drops(receiver).values()) + sum(sent_drops(sender).values())


def own_socket_drops(end: EndConditions) -> tuple[int, int]:
    """Of the packets the probe's own socket dropped: (surely for want of room, perhaps so and perhaps because they came damaged).

    The socket counts both alike; the host's counters of full buffers and of wrong checksums bound either.
    """
    dropped = end.drops.get(OWN, 0)
    full = [
        end.drops[name]
        for name in ("UdpRcvbufErrors", "UdpMemErrors", "Udp6RcvbufErrors", "Udp6MemErrors")
        if name in end.drops
    ]
    damaged = end.drops.get("UdpInCsumErrors", 0) + end.drops.get("Udp6InCsumErrors", 0)
    at_most = min(dropped, sum(full)) if full else dropped
    surely = min(max(dropped - damaged, 0), at_most)
    return surely, at_most - surely


def busy(result: ThroughputResult) -> str:
    """ "100 % of one core at the far end": the ends of a load that were nearly out of processor; "" when neither was."""
    found = re.search(r"(\d+)\.(\d+)", result.version)
    threads = found is not None and (int(found[1]), int(found[2])) >= _THREADS_SINCE
    cores = result.streams if threads else 1
    shares = {"near end": result.cpu_near, "far end": result.cpu_far}
    return " and ".join(
        f"{share * 100:.0f} % of one core at the {end}"
        for end, share in shares.items()
        if share and share > BUSY * cores
    )


def limiting(measurement: Measurement) -> str:
    """Why the hosts and not the line may have set the rate of a load; "" without a reason."""
    result = measurement.throughput
    if result is None:
        return ""
    used, lost = busy(result), dropped_early(measurement)
    said = [f"iperf3 used {used}"] if used else []
    said += [f"the receiving host had no room for packets ({lost})"] if lost else []
    return ", and ".join(said)


def dropped_early(measurement: Measurement) -> str:
    """ "far softnet_dropped +3": what the receiving host of a load dropped before any socket saw it; "" for nothing."""
    forward = measurement.step.direction is Direction.FORWARD
    state, there = measurement.conditions, "far" if forward else "near"
    return early(state.far if forward else state.near, there)


def early(end: EndConditions, place: str) -> str:
    """The same of one end."""
    return words(_early(end), place)


def slot_limit(measurement: Measurement, rate_bps: float | None) -> str:
    """Which PCIe slot cannot carry that rate one way; "" where both can or nothing is known of them."""
    state = measurement.conditions
    narrow = [
        f"the slot of the {place} end's card carries at most {format_rate(end.slot_bps)} one way, less than the {format_rate(rate_bps)} contracted"
        for end, place in ((state.near, "near"), (state.far, "far"))
        if rate_bps is not None and end.slot_bps is not None and end.slot_bps < rate_bps
    ]
    return " and ".join(narrow)


def _early(end: EndConditions) -> Counters:
    """What a receiving host dropped before any socket saw it."""
    return {name: count for name, count in received_drops(end).items() if not name.startswith("Udp")}


def words(counters: Counters, place: str) -> str:
    """ "far softnet_dropped +3, far eth0:rx_fifo +1"."""
    return ", ".join(f"{place} {name} +{format_count(count)}" for name, count in sorted(counters.items()))


def _named(end: EndConditions, endings: tuple[str, ...]) -> Counters:
    return {
        name: count
        for name, count in end.drops.items()
        if name.partition(":")[2] in endings and not name.startswith("lo:")
    }


def _card(end: EndConditions, sends: bool) -> Counters:
    """The driver's own counters, by the side their name speaks of; one that names none counts for arrivals."""
    cards = {name: count for name, count in end.drops.items() if ":nic/" in name}
    return {name: count for name, count in cards.items() if ("tx" in name.partition(":nic/")[2].lower()) is sends}
