"""A rate on columns: token buckets that queue or drop, for all packets together, for each flow, or for each member of a bundle. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

OVERHEAD = {"l1": 38, "l2": 18, "l3": 0}  # bytes a rate counts beside the IP packet: Ethernet, FCS, preamble and gap
_NEVER = -(2**62)
_WORD = 0xFFFFFFFF
_PORTED = (6, 17)  # TCP, UDP
_GOLDEN = 0xDEADBEEF  # what lookup3 starts from


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket. A shaper queues what exceeds it (up to its buffer); a policer drops it.

    Of a bundle each member has its share of `bps` and a bucket and a buffer as given. With `per_flow_bps` each flow passes a bucket
    of that rate first, as deep as given, then the one of all.
    """

    bps: int
    policer: bool = False
    bucket_bytes: int = 16_000
    buffer_bytes: int = 500_000
    counts: str = "l1"  # a key of OVERHEAD
    per_flow_bps: int = 0  # 0: flows are not limited by themselves
    members: int = 1  # equal links of a bundle (LAG, ECMP); a flow stays on one

    @property
    def of_one(self) -> Rate:
        """What one flow meets at the narrowest: its own bucket, or the one of the member it is on."""
        narrowest = min(self.bps // self.members, self.per_flow_bps or self.bps)
        return replace(self, bps=narrowest, per_flow_bps=0, members=1)

    @property
    def buffer_ns(self) -> int:
        """How long a packet waits at most in the buffer that one flow meets; a policer has none."""
        return 0 if self.policer else self.buffer_bytes * 8 * 10**9 // self.of_one.bps


def flow_hash(source: bytes, target: bytes, ports: bytes = b"", seed: int = 0) -> int:
    """32 bits that say which member of a bundle carries a flow: addresses (4 or 16 octets each); ports: the first four octets of a UDP
    or TCP header, nothing for what has no ports.

    Jenkins' lookup3 over the four in this order, each port followed by two zeros: what the firewall of the lab computes.
    """
    key = source + target + (ports[:2] + b"\0\0" + ports[2:] + b"\0\0" if ports else b"")
    a = b = c = (_GOLDEN + len(key) + seed) & _WORD
    words = [int.from_bytes(key[at : at + 4], "little") for at in range(0, len(key), 4)]
    while len(words) > 3:
        a, b, c = _mixed((a + words[0]) & _WORD, (b + words[1]) & _WORD, (c + words[2]) & _WORD)
        words = words[3:]
    a, b, c = ((value + word) & _WORD for value, word in zip((a, b, c), words + [0] * (3 - len(words)), strict=True))
    return _final(a, b, c)


def _turned(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _WORD


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in (4, 6, 8, 16, 19, 4):
        a = ((a - c) & _WORD) ^ _turned(c, by)
        c = (c + b) & _WORD
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _turned(b, by)) & _WORD
        a, b, c = b, c, a
    return b  # the turn moved the last one worked on here


def flow_of_packet(packet: bytes, seed: int = 0) -> int:
    """The same of a whole IP packet, IPv6 extension headers are not looked behind."""
    if packet[0] >= 0x60:
        source, target, protocol, ports = packet[8:24], packet[24:40], packet[6], packet[40:44]
    else:
        at = (packet[0] & 15) * 4
        source, target, protocol, ports = packet[12:16], packet[16:20], packet[9], packet[at : at + 4]
    return flow_hash(source, target, ports if protocol in _PORTED else b"", seed)


def member_of(flows: Ints | int, members: int) -> Ints | int:
    """The member (from 0) that carries flows of these 32-bit hashes: equal parts of the range of the hash."""
    return flows * members >> 32


class Bottleneck:
    """A `Rate` under way. `seen` and `dropped` count packets.

    Flows limited by themselves meet the limit on all in one queue behind their own; the lab's kernel keeps them in their own queues
    until both let them go. Rates are the same, bursts that both limits hold up are not.
    """

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.seen = self.dropped = 0
        self._all = _Bucket(replace(rate, per_flow_bps=0, members=1))
        self._apart: dict[int, _Bucket] = {}  # by flow, or by member

    def through(self, times: Ints, ip_bytes: Ints, flows: Ints | None = None) -> tuple[Ints, Flags]:
        """`times` ascending, sizes of the IP packets, 32-bit hashes of their flows (None: all are one flow).

        Returns when each leaves and which are lost, in the same order; flows may overtake each other where they are kept apart. A
        stream cut into several calls meets the same fate, except that where flows are limited by themselves before the limit
        on all, those of one call never fall behind those of the next.
        """
        if flows is None:
            flows = np.zeros(len(times), np.int64)
        if self.rate.members > 1:
            out, lost = self._each(times, ip_bytes, np.asarray(member_of(flows, self.rate.members)))
        elif self.rate.per_flow_bps:
            out, lost = self._each(times, ip_bytes, flows)
            here = np.flatnonzero(~lost)
            here = here[np.argsort(out[here], kind="stable")]
            out[here], lost[here] = self._all.through(out[here], ip_bytes[here])
        else:
            out, lost = self._all.through(times, ip_bytes)
        self.seen += len(times)
        self.dropped += int(lost.sum())
        return out, lost

    def _each(self, times: Ints, ip_bytes: Ints, groups: Ints) -> tuple[Ints, Flags]:
        """Each group through a bucket of its own."""
        out, lost = times.copy(), np.zeros(len(times), bool)
        order = np.argsort(groups, kind="stable")
        cuts = np.flatnonzero(np.diff(groups[order])) + 1
        for which in np.split(order, cuts) if len(order) else ():
            group = int(groups[which[0]])
            if group not in self._apart:
                self._apart[group] = _Bucket(self.rate.of_one)
            out[which], lost[which] = self._apart[group].through(times[which], ip_bytes[which])
        return out, lost


class _Bucket:
    """One token bucket. Packet i finishes virtually at F(i) = max(a(i), F(i-1)) + its serialisation, and leaves at
    max(a(i), F(i) - bucket time); a shaper drops what would wait longer than its buffer, a policer what would wait at all.
    """

    def __init__(self, rate: Rate) -> None:
        self._bps, self._overhead = rate.bps, OVERHEAD[rate.counts]
        self._finish = _NEVER
        self._bucket_ns = rate.bucket_bytes * 8 * 10**9 // rate.bps
        self._patience_ns = rate.buffer_ns

    def through(self, times: Ints, ip_bytes: Ints) -> tuple[Ints, Flags]:
        lost = np.zeros(len(times), bool)
        if len(times) == 0:
            return times, lost
        takes = (ip_bytes + self._overhead) * (8 * 10**9) // self._bps
        before = np.cumsum(takes) - takes
        starts = times - before
        starts[0] = max(int(starts[0]), self._finish)
        finish = np.maximum.accumulate(starts) + before + takes
        if (finish - self._bucket_ns - times > self._patience_ns).any():
            finish = self._dropping(times, takes, lost)
        self._finish = int(finish[-1])
        return np.maximum(times, finish - self._bucket_ns), lost

    def _dropping(self, times: Ints, takes: Ints, lost: Flags) -> Ints:
        """Packet by packet, since a dropped packet takes no time of those behind it; marks `lost`."""
        finish, out = self._finish, np.empty(len(times), np.int64)
        allowed = self._bucket_ns + self._patience_ns
        for i, (at, take) in enumerate(zip(times.tolist(), takes.tolist(), strict=True)):
            after = max(at, finish) + take
            if after - at > allowed:
                lost[i] = True
            else:
                finish = after
            out[i] = finish
        return out
