"""What the reflector's loop works with: a batch of packets, the sessions they may belong to, and whose each reply was. Floor 3."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.net.clock import monotonic_ns, utc_ns
from linkqual.net.messages import Longs, MessageBlock, Octets, received_ancillary
from linkqual.net.reflector import ReflectorConfig
from linkqual.net.sockets import address_octets
from linkqual.records import ABSENT
from linkqual.session.answers import Ends
from linkqual.session.reflector import ReflectorSession
from linkqual.units import NS_PER_S

_OWNERS = 1 << 16  # replies whose TX stamps may be under way
_GAPS = 3  # of a slow sender's mean gaps: silent for less, it is still there

Mask = npt.NDArray[np.bool_]


class Batch:
    """Packets read in one go, a row each."""

    def __init__(self, block: MessageBlock, count: int) -> None:
        self.packets = block.payload[:count]
        self.lengths = block.lengths[:count].astype(np.int64)
        longer = block.truncated(count)
        if longer.any():
            self.lengths[longer] = block.width + 1
        self.stamps, self.ttl, self.tos = received_ancillary(block, count)
        self.unstamped = 0
        missing = self.stamps == ABSENT
        if missing.any():
            self.stamps[missing] = utc_ns()
            self.unstamped = int(missing.sum())
        self._names = block.names[:count]

    @property
    def ports(self) -> npt.NDArray[np.uint16]:
        """Source ports."""
        return np.ascontiguousarray(self._names[:, 2:4]).view(">u2")[:, 0]

    def from_address(self, address: Octets) -> Mask:
        """Whose source is this address."""
        at = 8 if len(address) == 16 else 4
        return np.asarray((self._names[:, at : at + len(address)] == address).all(axis=1))


class Served:
    """One session, and how its packets are told from others."""

    def __init__(self, config: ReflectorConfig, here: bytes, here_port: int) -> None:
        self.config = config
        self.session = ReflectorSession(config.settings(utc_ns()))
        self.address = np.frombuffer(address_octets(config.peer_address), np.uint8)
        self.over_ns = monotonic_ns() + config.max_seconds * NS_PER_S
        self._here = here, here_port
        self._met = utc_ns(), 0  # when its present port was met, and the replies numbered before
        self.held = 0  # packets not answered since another port of the source had the session
        self.turned_away: Mask = np.zeros(0, np.bool_)  # such packets of the batch claimed from last
        self.meet(config.peer_port)

    def meet(self, port: int) -> None:
        """The peer sends from this port; 0: not known yet."""
        self.port = port
        self._met = utc_ns(), self.session.next_far
        self.session.answers.ends = Ends(self.address.tobytes(), port, *self._here)

    def claim(self, batch: Batch, free: Mask) -> Mask:
        """Which of the packets that are still `free` are this session's to answer or to refuse."""
        mine = free & batch.from_address(self.address)
        if self.config.peer_port:
            mine &= batch.ports == self.config.peer_port
        if (
            self.config.foreign and self.config.ssid is not None
        ):  # too short a packet shows no SSID: the first session's
            ssids = self.session.requests(batch.packets)["ssid"]
            mine &= (ssids == self.config.ssid) | (batch.lengths < self.session.shortest)
        if self._may_change(batch, mine):
            self._look_for_peer(batch, np.flatnonzero(mine))
        if self.port:
            self.turned_away = mine & (batch.ports != self.port)
            mine &= ~self.turned_away
        return mine

    def _may_change(self, batch: Batch, mine: Mask) -> bool:
        """Whether these may be of another sequence or port than the ones before."""
        if not self.port:
            return True
        if not self.config.foreign:
            return False
        silent_ns = utc_ns() - self.session.newest_ns
        if silent_ns > self.config.idle_ns:
            return True
        held = bool(self.config.peer_port) or silent_ns <= self.hold_ns
        return not held and not (mine & (batch.ports == self.port)).any()

    @property
    def hold_ns(self) -> int:
        """How long its port must be silent before another port of the source may begin: more than a slow sender's interval."""
        met_ns, before = self._met
        gap_ns = (self.session.newest_ns - met_ns) // max(self.session.next_far - before, 1)
        return min(max(self.config.hold_ns, _GAPS * gap_ns), max(self.config.idle_ns, self.config.hold_ns))

    def figures(self) -> dict[str, int]:
        """The session's counters, and who has it: `held` packets of other ports, `port`, `hold_ns`."""
        return self.session.figures() | {"held": self.held, "port": self.port, "hold_ns": self.hold_ns}

    def turn_away(self, free: Mask) -> Mask:
        """Which of the packets that no session claimed came from another port than the one that has this session; counted."""
        left = free & self.turned_away if len(self.turned_away) == len(free) else np.zeros_like(free)
        self.turned_away = np.zeros(0, np.bool_)
        self.held += int(left.sum())
        return left

    def _look_for_peer(self, batch: Batch, candidates: Longs) -> None:
        """Who sends the first sound packet is the peer; a foreign one, silent for a while, may start again or elsewhere."""
        sound = candidates[self.session.recognises(batch.packets, batch.lengths, candidates)]
        next_ones = sound[self.session.continues(batch.packets, batch.stamps, sound)]
        if len(next_ones) and self.port in (0, int(batch.ports[next_ones[0]])):
            self.meet(int(batch.ports[next_ones[0]]))
        elif len(sound) and self.config.foreign:
            sequence = self.session.requests(batch.packets)["sequence"][sound[0]]
            self.session.begin_anew(int(sequence), utc_ns())
            self.meet(int(batch.ports[sound[0]]))


class Owners:
    """Whose reply a TX stamp belongs to, where several sessions share the socket."""

    def __init__(self) -> None:
        self.next = 0
        self._session = np.zeros(_OWNERS, np.int64)
        self._number = np.zeros(_OWNERS, np.int64)

    def enter(self, sessions: Longs, numbers: Longs) -> int:
        """Replies of these sessions, with these numbers of their own; the number of the first one on the socket."""
        at = (self.next + np.arange(len(numbers))) % _OWNERS
        self._session[at], self._number[at] = sessions, numbers
        self.next += len(numbers)
        return self.next - len(numbers)

    def find(self, numbers: Longs) -> tuple[Longs, Longs]:
        """(sessions, their own numbers)."""
        at = numbers % _OWNERS
        return self._session[at], self._number[at]
