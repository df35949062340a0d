"""Which packet sizes to try next, and what those that arrived say: a search like that of RFC 4821 and RFC 8899. Floor 2, pure.

A lost packet may be too long, or simply lost. So each size has a few packets, sizes of one round go out together, and in the end the
longest one that arrives and the shortest one that does not are sent in turn until Fisher's exact test tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb

from linkqual.model import Direction, MtuHop, MtuTried, MtuWay

LEAST = {4: 576, 6: 1280}  # what every path carries: RFC 1122 s3.3.3, RFC 8200 s5
HEADERS = {4: 28, 6: 48}  # IP and UDP
EACH = 3  # packets of a size before it counts as one that does not arrive
CONFIRM = 10  # of each of the two sizes, in turn
SURE = 1e-4  # chance that two sizes of which equally many arrive would look so different
MOST_CONFIRM = 80
ROUNDS = 12
USUAL_ROUNDS = 3  # of the first ones try usual sizes; in the narrow range left then, even steps find it sooner
AT_ONCE = 16  # sizes of a round
# Where a path MTU usually lies: Ethernet less tags, PPPoE, GRE, IPsec, VXLAN ... , then the ways to write "jumbo"
USUAL = (
    *(1280, 1342, 1350, 1372, 1380, 1392, 1400, 1408, 1412, 1420, 1422, 1426, 1428, 1430, 1434, 1436, 1438, 1440, 1442, 1446),
    *(1450, 1452, 1454, 1458, 1460, 1462, 1464, 1468, 1472, 1476, 1480, 1482, 1486, 1488, 1492, 1496, 1500, 1504, 1508),
    *(1522, 1546, 1600, 2000, 2048, 4000, 4096, 4352, 4470, 8900, 8946, 8950, 8970, 8986, 9000, 9018, 9100, 9180, 9192, 9216),
)  # fmt: skip


@dataclass(slots=True)
class Search:
    """Sizes from `least` to `most`, bytes of IP packets. Ask `next`, tell `took` and `told`, until `next` is empty."""

    least: int
    most: int
    rounds: int = 0
    trouble: str = ""  # why no answer can be given
    _sent: dict[int, int] = field(default_factory=dict)
    _arrived: dict[int, int] = field(default_factory=dict)
    _hints: list[int] = field(default_factory=list)

    @property
    def passes(self) -> int | None:
        """The longest size of which a packet arrived."""
        return max((size for size, count in self._arrived.items() if count), default=None)

    @property
    def fails(self) -> int | None:
        """The shortest size above that of which several were sent and none arrived."""
        passes = self.passes or 0
        bad = [size for size, count in self._sent.items() if size > passes and count >= EACH]
        return min(bad, default=None)

    @property
    def tried(self) -> tuple[MtuTried, ...]:
        """Every size, ascending."""
        return tuple(MtuTried(size, self._sent[size], self._arrived.get(size, 0)) for size in sorted(self._sent))

    def took(self, size: int, sent: int, arrived: int) -> None:
        """So many more packets of a size were sent, so many arrived; late arrivals may come with `sent` 0."""
        self._sent[size] = self._sent.get(size, 0) + sent
        self._arrived[size] = self._arrived.get(size, 0) + arrived

    def told(self, size: int) -> None:
        """A router named this as the longest packet that fits; a hint, tried first and believed only where it holds."""
        if self.least <= size < self.most:
            self._hints.append(size)

    def next(self) -> tuple[int, ...]:
        """Sizes of the packets of the next round, in the order they are to leave; empty: done, or `trouble`."""
        self.rounds += 1
        if self.rounds > ROUNDS:
            self.trouble = "packets of one size arrived at one time and not at another"
            return ()
        passes, fails = self.passes, self.fails
        if passes is None:
            return self._first()
        if passes == self.most or (fails is not None and fails == passes + 1):
            return self._confirm(passes, fails)
        if fails is None:
            return (self.most,) * EACH
        return tuple(self._between(passes, fails)) * EACH

    def _first(self) -> tuple[int, ...]:
        if self._sent.get(self.least, 0) >= 2 * EACH:
            self.trouble = f"not even packets of {self.least} bytes were answered"
            return ()
        return tuple(dict.fromkeys((self.least, self.most))) * EACH

    def _between(self, passes: int, fails: int) -> Iterable[int]:
        """Sizes strictly between: what a router named, what is usual, else evenly spread."""
        inside = range(passes + 1, fails)
        if named := {size for hint in self._hints for size in (hint, hint + 1) if size in inside}:
            return sorted(named)
        usual = [size for size in USUAL if size in inside]
        if usual and self.rounds <= USUAL_ROUNDS:
            some = usual[:: -(-len(usual) // AT_ONCE)]
            return sorted({size + more for size in some for more in (0, 1) if size + more in inside})
        return inside[:: -(-len(inside) // AT_ONCE)]

    def _confirm(self, passes: int, fails: int | None) -> tuple[int, ...]:
        short = passes if fails is not None else self.least
        long = fails if fails is not None else passes
        sent = min(self._sent.get(short, 0), self._sent.get(long, 0))
        if sent >= CONFIRM and (fails is None or self._apart(short, long) < SURE):
            return ()
        if sent >= MOST_CONFIRM:
            self.trouble = f"so much is lost that packets of {short} and of {long} bytes cannot be told apart"
            return ()
        return (short, long) * (CONFIRM if sent >= CONFIRM else CONFIRM - sent) if short != long else (short,) * CONFIRM

    def _apart(self, short: int, long: int) -> float:
        return chance(self._arrived[short], self._sent[short], self._arrived.get(long, 0), self._sent[long])


def chance(arrived: int, sent: int, arrived_long: int, sent_long: int) -> float:
    """That of all that arrived so few or fewer were long, were all alike: Fisher's exact test, one-sided."""
    total = arrived + arrived_long
    least = max(0, total - sent)
    ways = [comb(sent_long, long) * comb(sent, total - long) for long in range(least, arrived_long + 1)]
    return sum(ways) / comb(sent + sent_long, total)


def kind(search: Search, told_by: str | None) -> str:
    """What became of the packets that are too long: see `MtuWay`."""
    if search.trouble or search.passes is None:
        return "unknown"
    if search.fails is None:
        return "whole"
    return "told" if told_by is not None else "black hole"


@dataclass(frozen=True, slots=True)
class Place:
    """Between which hops long packets vanish; `before` None: the sender itself, `after` None: the other end."""

    before: MtuHop | None
    after: MtuHop | None
    silent: tuple[int, ...] = ()  # TTLs between them that answer nothing


def place(hops: Sequence[MtuHop]) -> Place | None:
    """Where long packets get to and no further. None when no hop told anything, or what they told contradicts itself."""
    before = next((hop for hop in reversed(hops) if hop.long), None)
    reach = before.ttl if before else 0
    after = next((hop for hop in hops if hop.ttl > reach and hop.short), None)
    if before is None and after is None:
        return None
    until = after.ttl if after else (hops[-1].ttl + 1)
    return Place(before, after, tuple(hop.ttl for hop in hops if reach < hop.ttl < until))


def of_direction(ways: Sequence[MtuWay], direction: Direction) -> MtuWay | None:
    """The one of that direction."""
    return next((way for way in ways if way.direction is direction), None)
