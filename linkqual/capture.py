"""Captures of tcpdump and its like: read with scapy, recounted, and set against a stored run. Floor 3.

scapy opens the file (pcap of micro- and nanoseconds, pcapng, either gzipped) and hands over frame by frame, so memory does not
grow with the file; what is STAMP in them is found by `session.captured_sessions`. A capture is somebody else's file: where it is
damaged, reading ends, and `Reading.damage` says so; what came before is used.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linkqual import store
from linkqual.errors import InputError
from linkqual.model import Measurement
from linkqual.records import ABSENT, Records
from linkqual.session.captured import CapturedSession, Key
from linkqual.session.captured_sessions import Sessions
from linkqual.session.coverage import Extent, Survey
from linkqual.session.witness import Comparison, Coverage, Place, Witness, paired
from linkqual.stats.summary import Summarizer
from linkqual.units import NS_PER_S
from linkqual.wire import frame

DEFAULT_TIMEOUT_NS = 3 * NS_PER_S  # Tmax of the registry's STAMP-like metrics (RFC 8912 s4, s7)
_SETTLE_EVERY = 4096  # packets
_MOST_TRIED = 4  # sessions that are compared with a run before it is said that none is that run's
_LARGEST_NS = 2**62  # of an instant
_LARGEST_FRAME = 0xFFFF
_PCAPNG_ALIGNMENT, _PCAP_HEADER_BYTES, _PCAP_PACKET_BYTES = 4, 24, 16


@dataclass(slots=True)
class Reading:
    """What reading a capture was like."""

    packets: int = 0
    stamp: int = 0
    timeless: int = 0  # packets without a time
    beyond: int = 0  # of more sessions than are kept apart
    first_ns: int | None = None
    last_ns: int | None = None
    link_types: Counter[int] = field(default_factory=Counter)
    damage: str = ""  # where reading ended early

    @property
    def unreadable(self) -> dict[int, int]:
        """Packets by link-layer types that are not known here."""
        return {kind: count for kind, count in self.link_types.items() if not frame.known(kind)}


def frames(path: Path, told: Reading) -> Iterator[tuple[int, int, Hashable, bytes]]:
    """(time in UTC ns, link-layer type, interface, octets) of each packet. Raises InputError for a file that is no capture."""
    reader = _open(path)
    logger, ears = logging.getLogger("scapy"), _Complaints()
    level, handlers = logger.level, logger.handlers
    logger.setLevel(logging.WARNING)
    logger.handlers = [ears]
    try:
        with reader:
            yield from _packets(reader, told, ears)
    finally:
        logger.setLevel(level)
        logger.handlers = handlers


class _Complaints(logging.Handler):
    """What scapy says of a file."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or record.getMessage()


def _open(path: Path) -> Any:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False  # before any layer is imported
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapReader

    try:
        return RawPcapReader(str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", hint="check the name") from error
    except Scapy_Exception as error:
        hint = "give a file of `tcpdump -w FILE`, pcap or pcapng"
        raise InputError(f"{path} is no capture: {error}", hint=hint) from error


def _packets(reader: Any, told: Reading, ears: _Complaints) -> Iterator[tuple[int, int, Hashable, bytes]]:
    from scapy.error import Scapy_Exception

    step, position = 1 if getattr(reader, "nano", False) else 1000, _PCAP_HEADER_BYTES
    try:
        for octets, head in reader:
            if hasattr(head, "tsresol"):
                ns, kind, place = _pcapng_time(head), int(head.linktype), head.ifname
            else:
                told.damage = _pcap_damage(head, len(octets), step)
                if told.damage:
                    return
                position += _PCAP_PACKET_BYTES + head.caplen
                ns, kind, place = head.sec * NS_PER_S + head.usec * step, int(reader.linktype), None
            told.packets += 1
            told.link_types[kind] += 1
            if not 0 <= ns < _LARGEST_NS:
                told.timeless += 1
                continue
            yield ns, kind, place, octets
        told.damage = ears.first or _rest(reader, position)
    except (
        Scapy_Exception,
        EOFError,
        OSError,
        ValueError,
        ArithmeticError,
        LookupError,
        TypeError,
        zlib.error,
        struct.error,
    ) as error:
        told.damage = str(error) or type(error).__name__


def _pcapng_time(head: Any) -> int:
    if head.tshigh is None:
        return -1
    return int((head.tshigh << 32 | head.tslow) * NS_PER_S // head.tsresol)


def _pcap_damage(head: Any, got: int, step: int) -> str:
    if head.usec * step >= NS_PER_S:
        return "a packet's time cannot be"
    if head.caplen > _LARGEST_FRAME:
        return f"a packet of {head.caplen} octets cannot be"
    return "the last packet is cut off" if got < head.caplen else ""


def _rest(reader: Any, position: int) -> str:
    """What a reader that stopped without a word left behind."""
    if reader.f.read(1):
        return "a block in the middle is damaged"
    end = reader.f.tell()
    clean = end % _PCAPNG_ALIGNMENT == 0 if hasattr(reader, "interfaces") else end == position
    return "" if clean else "the end is cut off"


# ---- sessions


@dataclass(frozen=True, slots=True)
class Found:
    """A session with its records counted."""

    session: CapturedSession
    summarizer: Summarizer


def records(
    path: Path, told: Reading, timeout_ns: int, port: int | None = None
) -> Iterator[tuple[CapturedSession, Records]]:
    """Packet records of every session, each session's in order of sequence number."""
    sessions, newest = Sessions(timeout_ns, port), 0
    for ns, kind, place, octets in frames(path, told):
        told.first_ns = ns if told.first_ns is None else min(told.first_ns, ns)
        told.last_ns = newest = max(newest, ns)
        packet = frame.datagram(octets, kind)
        if packet is not None and sessions.add(packet, ns, (place, packet.interface)) is not None:
            told.stamp += 1
            if told.stamp % _SETTLE_EVERY == 0:
                for session in sessions.found.values():
                    yield from ((session, rows) for rows in session.settle(newest))
    told.beyond = sessions.refused
    for session in sessions.found.values():
        yield from ((session, rows) for rows in session.finish(newest))


def recount(path: Path, told: Reading, timeout_ns: int, port: int | None = None) -> dict[Key, Found]:
    """Every session of a capture, summarised as the engine's own records are."""
    found: dict[Key, Found] = {}
    for session, rows in records(path, told, timeout_ns, port):
        if session.key not in found:
            found[session.key] = Found(session, Summarizer())
        found[session.key].summarizer.add(rows)
    return found


# ---- against a run


def against(
    path: Path,
    told: Reading,
    key: Key,
    folder: Path,
    taken: Measurement,
    place: Place,
    timeout_ns: int,
    port: int | None,
) -> Comparison | None:
    """The packets a run stored for a step, against one session of a capture; the file is read twice more.

    With a reflector that is not ours some packets follow those that count (`probes.foreign`): they are left out. None: the session is not
    that run's.
    """
    step = taken.step.key
    last = None
    if taken.stamp is not None and taken.stamp.far_end != "agent":
        last = max((int(rows["seq"][-1]) for rows in store.packets(folder, step) if len(rows)), default=None)
    chosen: list[CapturedSession] = []

    def captured() -> Iterator[Records]:
        for session, rows in records(path, Reading() if chosen else told, timeout_ns, port):
            if session.key == key:
                chosen[:] = [session]
                yield rows if last is None else rows[rows["seq"] <= last]

    survey = Survey(place)
    for ours, theirs in paired(store.packets(folder, step), captured()):
        survey.add(ours, theirs)
    if not survey.fits:
        return None
    witness = Witness(place, _coverage(survey.window(told.first_ns or 0, told.last_ns or 0), folder, step, place))
    witness.compare(store.packets(folder, step), captured())
    return witness.result(chosen[0].attribution())


def _coverage(window: tuple[int, int] | None, folder: Path, step: str, place: Place) -> Coverage | None:
    if window is None:
        return None
    extent = Extent(place, window)
    for rows in store.packets(folder, step):
        extent.add(rows)
    return extent.coverage()


def likely(found: dict[Key, Found], started_ns: int) -> list[Key]:
    """The sessions, those first whose first request left nearest to an instant."""
    begun = {key: each.session.first_ns for key, each in found.items() if each.session.first_ns != ABSENT}
    return sorted(begun, key=lambda key: abs(begun[key] - started_ns))[:_MOST_TRIED]
