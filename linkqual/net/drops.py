"""Packets this host dropped by itself, by counter, and when: read before a step, about every second during it, and after. Floor 3."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path

from linkqual.net import netlink, nic
from linkqual.net.clock import utc_ns

_THREAD_NET = Path("/proc/thread-self/net")  # of the calling thread's namespace; /proc/net is the main thread's
_UDP = ("InErrors", "RcvbufErrors", "SndbufErrors", "MemErrors", "InCsumErrors")
_DEVICE = {3: "rx_dropped", 4: "rx_fifo", 11: "tx_dropped", 12: "tx_fifo"}  # columns of /proc/net/dev
_EVERY_S = 1.0
MOST_TIMES = 128  # rises kept of a step; beyond, two neighbours of one counter become one

Counters = dict[str, int]
Rise = tuple[int, str, int]  # when it was read (UTC ns), counter, by how much


def counters(interfaces: Collection[str] = ()) -> Counters:
    """Counters since this host started, of the calling thread's network namespace. `interfaces`: only of these; (): of all.

    UdpRcvbufErrors (a full receive socket), UdpSndbufErrors, UdpInErrors, UdpMemErrors, UdpInCsumErrors (came damaged), the same
    for UDP over IPv6; softnet_dropped and softnet_squeezed (the backlog of a core was full, its time was up; of the whole host);
    per interface rx_dropped, rx_fifo, tx_dropped, tx_fifo, qdisc_drops, qdisc_requeues, ingress_drops, and nic/NAME of its driver.
    A counter the kernel does not have is absent.
    """
    found = _udp() | _softnet()
    for line in _lines("dev")[2:]:
        name, _, values = line.partition(":")
        columns = [int(value) for value in values.split()]
        found |= {f"{name.strip()}:{label}": columns[place] for place, label in _DEVICE.items()}
    for queue in netlink.queues():
        kinds = {"ingress_drops": queue.drops} if queue.ingress else {
            "qdisc_drops": queue.drops, "qdisc_requeues": queue.requeues
        }  # fmt: skip
        found |= {f"{queue.interface}:{kind}": count for kind, count in kinds.items()}
    named = {name.partition(":")[0] for name in found if ":" in name}
    chosen = named & set(interfaces) if interfaces else named
    for interface in chosen:
        found |= {f"{interface}:nic/{name}": count for name, count in nic.ring_drops(interface).items()}
    return {name: count for name, count in found.items() if ":" not in name or name.partition(":")[0] in chosen}


def _udp() -> Counters:
    found: Counters = {}
    for names, values in pairwise(_lines("snmp")):
        if names.startswith("Udp: ") and values.startswith("Udp: ") and "InErrors" in names:
            pairs = zip(names.split()[1:], values.split()[1:], strict=False)
            found |= {f"Udp{name}": int(value) for name, value in pairs if name in _UDP}
    for line in _lines("snmp6"):
        name, _, value = line.partition(" ")
        if name.removeprefix("Udp6") in _UDP and name.startswith("Udp6"):
            found[name] = int(value)
    return found


def _softnet() -> Counters:
    cores = [line.split() for line in _lines("softnet_stat")]
    if not cores:
        return {}
    return {
        "softnet_dropped": sum(int(core[1], 16) for core in cores),
        "softnet_squeezed": sum(int(core[2], 16) for core in cores),
    }


def _lines(name: str) -> list[str]:
    try:
        return (_THREAD_NET / name).read_text(encoding="ascii").splitlines()
    except OSError:
        return []


def rise(before: Counters, after: Counters) -> Counters:
    """By how much each counter rose; one that fell was reset and counts from zero, one that is new does too."""
    return {name: now - before.get(name, 0) if now >= before.get(name, 0) else now for name, now in after.items()}


class Sampler:
    """Reads the counters of one measurement's interfaces in a thread of its own, in the namespace of whoever starts it.

    with Sampler(peer) as sampler:
        ...
    sampler.increase, sampler.times     what was dropped from `begin` (or the start) to the end, and when it was seen to rise
    """

    def __init__(
        self, peer: str = "", every_s: float = _EVERY_S, read: Callable[[Collection[str]], Counters] | None = None
    ) -> None:
        """`peer`: the interface towards this address is watched, else all of them."""
        interface = netlink.outgoing_interface(peer) if peer else None
        self._interfaces = (interface,) if interface else ()
        self._every_s, self._read = every_s, read or counters
        self._lock = threading.Lock()
        self._end = threading.Event()
        self.begin()
        self._thread = threading.Thread(target=self._watch, name="drops", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """What is dropped from now on is what counts."""
        with self._lock:
            self.latest = self._read(self._interfaces)  # since the host started
            self.increase: Counters = {}
            self.times: tuple[Rise, ...] = ()

    def look(self) -> None:
        """Bring `latest`, `increase` and `times` up to this moment. Interfaces that dropped nothing are left out of the increase."""
        with self._lock:
            now, at_ns = self._read(self._interfaces), utc_ns()
            rose = rise(self.latest, now)
            total = {
                name: self.increase.get(name, 0) + by for name, by in (dict.fromkeys(self.increase, 0) | rose).items()
            }
            self.increase = {name: by for name, by in total.items() if by or ":" not in name}
            self.times = thinned([*self.times, *((at_ns, name, by) for name, by in rose.items() if by)])
            self.latest = now

    def _watch(self) -> None:
        while not self._end.wait(self._every_s):
            self.look()

    def close(self) -> None:
        """Look a last time and end; idempotent."""
        if not self._end.is_set():
            self._end.set()
            self._thread.join()
            self.look()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def thinned(times: Sequence[Rise]) -> tuple[Rise, ...]:
    """At most MOST_TIMES: two neighbours of one counter become one that stands at the earlier instant."""
    while len(times) > MOST_TIMES:
        kept: list[Rise] = []
        open_: dict[str, int] = {}  # counter -> where in `kept` a first one waits for its second
        for at, name, by in times:
            place = open_.pop(name, None)
            if place is None:
                open_[name] = len(kept)
                kept.append((at, name, by))
            else:
                kept[place] = (kept[place][0], name, kept[place][2] + by)
        if len(kept) == len(times):  # more counters than room
            return tuple(kept[:MOST_TIMES])
        times = kept
    return tuple(times)
