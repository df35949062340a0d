"""Which DSCP and ECN values arrive (RFC 8972 s4.4): what is sent, what the replies tell, the counts of sent x arrived. Floor 2.

Each request carries one marking and asks for its DSCP on the reply (DSCP1 of the Class of Service TLV), which has the ECN of
the request as it arrived. The TLV comes back with DSCP and ECN as the far end received them; how the reply itself arrives
shows the way back. All markings travel in one flow and in turn, so that a change in time meets all of them alike. An ECN code
point that does not reach the far end is put on replies there in a session of its own (`reply_ecn`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from linkqual.errors import InputError, WireError
from linkqual.model import Direction, Hop, Json, MarkingRow
from linkqual.wire import codepoints, tlv
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate
from linkqual.wire.tlv import Tlv, Type
from linkqual.wire.tlv_values import ClassOfService

PACKET_BYTES = 52  # 44 of RFC 8762, 8 of the Class of Service TLV
DSCP, ECN = "DSCP", "ECN"  # the two statistics of the metric `marking`
KEEP, ALL = "keep", "all"


class Mark(NamedTuple):
    """A marking, as numbers."""

    dscp: int
    ecn: int


@dataclass(frozen=True, slots=True)
class Echo:
    """What one reply tells."""

    there: Mark  # of the request as the far end received it
    back: Mark  # of the reply as it arrived
    as_asked: bool  # the far end marked the reply as asked (RP is clear)


# ---- what is asked


def marks(dscps: Sequence[int], ecns: Sequence[int]) -> tuple[Mark, ...]:
    """The markings to send: each DSCP without ECT, and each ECN code point on CS0. Unmarked packets are always among them."""
    found = [Mark(0, 0), *(Mark(dscp, 0) for dscp in dscps), *(Mark(0, ecn) for ecn in ecns)]
    return tuple(dict.fromkeys(found))


def wanted(limit_text: str) -> tuple[str, ...] | None:
    """The names in "keep EF, AF41"; None for "keep all". InputError when it is neither."""
    word, _, rest = limit_text.partition(" ")
    names = tuple(name.strip() for name in rest.split(","))
    if word != KEEP or not all(names):
        raise InputError(f"{limit_text!r} is no limit of a marking", "keep all, keep EF, AF41 (or ECT(0), CE), or none")
    return None if names == (ALL,) else names


def wanted_values(limit_text: str, statistic: str) -> tuple[int, ...] | None:
    """The same as numbers: of DSCPs or of ECN code points, by the statistic."""
    names = wanted(limit_text)
    parse = codepoints.parse_dscp if statistic == DSCP else codepoints.parse_ecn
    return None if names is None else tuple(dict.fromkeys(map(parse, names)))


# ---- packets


def request(seq: int, ssid: int, mark: Mark, now_ns: int) -> bytes:
    """UDP payload of a request that wants its reply marked like itself."""
    tail = tlv.encode([Tlv(Type.CLASS_OF_SERVICE, ClassOfService(dscp1=mark.dscp).encode())])
    return SenderPacket(seq, now_ns, ErrorEstimate.of(None, synchronised=False), ssid, tail).encode()


def read_reply(data: bytes, ssid: int, octet: int) -> tuple[int, Echo] | None:
    """(Sequence number, what it tells) of a reply that arrived with this TOS octet; None when it is none of this session's.

    A reply without a usable Class of Service TLV tells nothing: the far end does not know it.
    """
    try:
        reply = ReflectorPacket.decode(data)
        told = next(each for each in tlv.read_reply(reply.tail) if each.type == Type.CLASS_OF_SERVICE)
        service = ClassOfService.decode(told.value)
    except (WireError, StopIteration):
        return None
    if reply.ssid != ssid:
        return None
    there = Mark(service.dscp2, service.ecn)
    return reply.sender_sequence, Echo(there, Mark(*codepoints.parts(octet)), service.reverse_path == 0)


# ---- what is counted


@dataclass(frozen=True, slots=True)
class Exchange:
    """One session, packet by packet."""

    sent: tuple[Mark, ...]  # the marking of each request, by its number
    echoes: Mapping[int, Echo]
    reached: tuple[bool, ...]  # which requests got to the far end
    reply_ecn: int | None = None  # of every reply; None: that of its request as it arrived

    def raw(self) -> dict[str, Json]:
        """Plain values to be kept beside the document; `from_raw` reads them."""
        echoes = [[number, *echo.there, *echo.back, int(echo.as_asked)] for number, echo in sorted(self.echoes.items())]
        return {
            "sent": [list(mark) for mark in self.sent],
            "echoes": echoes,
            "reached": [int(each) for each in self.reached],
            "reply_ecn": self.reply_ecn,
        }


def from_raw(kept: Mapping[str, Json]) -> Exchange:
    """The inverse of `Exchange.raw`."""
    echoes = {
        number: Echo(Mark(dscp, ecn), Mark(back_dscp, back_ecn), bool(as_asked))
        for number, dscp, ecn, back_dscp, back_ecn, as_asked in kept["echoes"]
    }
    reached = tuple(bool(each) for each in kept["reached"])
    return Exchange(tuple(Mark(*each) for each in kept["sent"]), echoes, reached, kept["reply_ecn"])


def matrix(exchanges: Sequence[Exchange]) -> tuple[MarkingRow, ...]:
    """The rows of both directions. Of a session with a `reply_ecn` only the way back counts."""
    there: dict[Mark, list[tuple[Echo | None, bool]]] = {}
    back: dict[Mark, list[Echo | None]] = {}
    for one in exchanges:
        for number, mark in enumerate(one.sent):
            echo, reached = one.echoes.get(number), one.reached[number]
            if one.reply_ecn is None:
                there.setdefault(mark, []).append((echo, reached))
            if echo is not None or reached:
                ecn = one.reply_ecn if one.reply_ecn is not None else echo.there.ecn if echo else mark.ecn
                back.setdefault(Mark(mark.dscp, ecn), []).append(echo)
    return (
        *(_forward(mark, packets) for mark, packets in there.items()),
        *(_reverse(mark, echoes) for mark, echoes in back.items()),
    )


def _forward(mark: Mark, packets: Sequence[tuple[Echo | None, bool]]) -> MarkingRow:
    silent = [reached for echo, reached in packets if echo is None]
    return MarkingRow(
        Direction.FORWARD,
        *mark,
        sent=len(packets),
        lost=silent.count(False),
        unseen=silent.count(True),
        arrived=_cells(echo.there for echo, _ in packets if echo is not None),
    )


def _reverse(mark: Mark, echoes: Sequence[Echo | None]) -> MarkingRow:
    heard = [echo for echo in echoes if echo is not None]
    return MarkingRow(
        Direction.REVERSE,
        *mark,
        sent=len(echoes),
        lost=len(echoes) - len(heard),
        unmarked=sum(not echo.as_asked for echo in heard),
        arrived=_cells(echo.back for echo in heard if echo.as_asked),
    )


def _cells(arrived: Iterable[Mark]) -> tuple[tuple[int, int, int], ...]:
    return tuple((dscp, ecn, count) for (dscp, ecn), count in sorted(Counter(arrived).items()))


def never_sent_back(rows: Sequence[MarkingRow], ecns: Sequence[int]) -> tuple[int, ...]:
    """ECN code points with which nothing left the far end, since nothing arrived there with them."""
    left = {row.ecn for row in rows if row.direction is Direction.REVERSE and row.sent > row.unmarked}
    return tuple(ecn for ecn in dict.fromkeys(ecns) if ecn not in left)


# ---- what became of one value


@dataclass(frozen=True, slots=True)
class Survival:
    """What became of the packets sent with one DSCP or ECN value in one direction."""

    value: int
    kept: int  # arrived with it
    changed: tuple[tuple[int, int], ...]  # (value it arrived with, packets)
    lost: int
    unseen: int
    unmarked: int
    congested: int = 0  # of `kept`: sent with ECT, arrived with CE

    @property
    def arrived(self) -> int:
        """Packets whose marking is known on arrival."""
        return self.kept + sum(count for _, count in self.changed)


def survivals(rows: Sequence[MarkingRow], direction: Direction, statistic: str) -> tuple[Survival, ...]:
    """Of each DSCP that was sent without ECT, or of each ECN code point sent on CS0, in the order they were asked for.

    CE on a packet sent with ECT is a queue that speaks (RFC 3168 s5) and no change of the marking.
    """
    part, other = (0, 1) if statistic == DSCP else (1, 0)
    mine = [row for row in rows if row.direction is direction and (row.dscp, row.ecn)[other] == 0]
    return tuple(_survival(row, (row.dscp, row.ecn)[part], part) for row in mine)


def _survival(row: MarkingRow, value: int, part: int) -> Survival:
    arrived: Counter[int] = Counter()
    for cell in row.arrived:
        arrived[cell[part]] += cell[2]
    congested = 0
    if part == 1 and value in (codepoints.ECT_0, codepoints.ECT_1):
        congested = arrived.pop(codepoints.CE, 0)
    kept = arrived.pop(value, 0) + congested
    changed = tuple(sorted(arrived.items(), key=lambda item: (-item[1], item[0])))
    return Survival(value, kept, changed, row.lost, row.unseen, row.unmarked, congested)


def to_trace(rows: Sequence[MarkingRow], direction: Direction) -> Mark | None:
    """The marking whose way is worth a trace: the first DSCP and the first ECN value that changed; None when none did."""
    first = [
        next((one.value for one in survivals(rows, direction, statistic) if one.changed), None)
        for statistic in (DSCP, ECN)
    ]
    return None if first == [None, None] else Mark(first[0] or 0, first[1] or 0)


# ---- what a trace adds


@dataclass(frozen=True, slots=True)
class Where:
    """Between which hops of a trace a marking changed. `before`: the last that quotes it as sent, None: none does.

    `after`: the first that quotes another, None: none does.
    """

    before: Hop | None
    after: Hop | None


def changed_at(hops: Sequence[Hop], value: int, statistic: str) -> Where | None:
    """Where a probe's DSCP or ECN (`statistic`) became another than `value`; None when no hop quotes the octet.

    A router quotes the IP header of the probe as it has it in hand when the TTL runs out: what its own ingress, or anything
    between it and the hop before, has changed is changed in the quote; what it would change on the way out is not.
    """
    part = 0 if statistic == DSCP else 1
    telling = [(hop, codepoints.parts(hop.quoted_tos)[part]) for hop in hops if hop.quoted_tos is not None]
    if not telling:
        return None
    changed = next((place for place, (_, seen) in enumerate(telling) if seen != value), len(telling))
    return Where(
        telling[changed - 1][0] if changed else None,
        telling[changed][0] if changed < len(telling) else None,
    )
