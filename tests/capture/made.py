"""Captures made by hand: what would pass a point of the path in a STAMP session, and the files that hold it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address

from linkqual.session.captured import CapturedSession
from linkqual.session.captured_sessions import Sessions
from linkqual.stats.summary import Summarizer
from linkqual.wire import frame, stamp_auth, tlv
from linkqual.wire.stamp import Mode
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate
from linkqual.wire.tlv import Tlv
from linkqual.wire.tlv_values import FollowUp

MS = 1_000_000
T = 1_700_000_000 * 10**9
NEAR, FAR = ("192.0.2.1", 40000), ("192.0.2.2", 862)
KEY = bytes(range(32))


def ipv4(source: tuple[str, int], destination: tuple[str, int], payload: bytes, ttl: int = 255, tos: int = 0) -> bytes:
    """An IPv4 datagram; checksums are nobody's concern here."""
    udp = struct.pack("!HHHH", source[1], destination[1], 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(udp), 0, 0, ttl, 17, 0)
    return head + ip_address(source[0]).packed + ip_address(destination[0]).packed + udp


def ethernet(packet: bytes) -> bytes:
    """An Ethernet frame around an IP packet."""
    return bytes(12) + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


@dataclass
class Point:
    """Packets of one session as they pass a point: (ns, IP packet)."""

    mode: Mode = Mode.UNAUTHENTICATED
    ssid: int = 7
    error: ErrorEstimate = field(default_factory=ErrorEstimate)
    near: tuple[str, int] = NEAR
    far: tuple[str, int] = FAR
    packets: list[tuple[int, bytes]] = field(default_factory=list)

    def request(self, seq: int, ns: int, tos: int = 0) -> None:
        """A request of this number passes."""
        packet = SenderPacket(seq % 2**32, ns - 100, self.error, self.ssid, Tlv(7, bytes(16)).encode())
        octets = packet.encode() if self.mode is Mode.UNAUTHENTICATED else stamp_auth.encode_sender(packet, KEY)
        self.packets.append((ns, ipv4(self.near, self.far, octets, tos=tos)))

    def reply(
        self, seq: int, far: int, ns: int, *, held: int = MS, told: FollowUp | None = None, ssid: int | None = None
    ) -> None:
        """The reply to `seq` passes, the reflector's number `far`; T3 = now, T2 = `held` before."""
        tail = tlv.encode([Tlv(7, (told or FollowUp()).encode(), 0)])
        session = self.ssid if ssid is None else ssid
        packet = ReflectorPacket(
            far % 2**32,
            ns - 50,
            self.error,
            session,
            ns - 50 - held,
            seq % 2**32,
            ns - held - 200,
            self.error,
            250,
            tail,
        )
        octets = packet.encode() if self.mode is Mode.UNAUTHENTICATED else stamp_auth.encode_reflector(packet, KEY)
        self.packets.append((ns, ipv4(self.far, self.near, octets, ttl=60, tos=4)))


@dataclass
class Told:
    """What came of it."""

    sessions: list[CapturedSession]
    summarizers: list[Summarizer]
    records: list


def looked_at(
    packets: list[tuple[int, bytes]], *, port: int | None = None, timeout_ns: int = 1000 * MS, every: int = 50
) -> Told:
    """The sessions in packets of raw IP, settled every so many of them."""
    import numpy as np

    sessions = Sessions(timeout_ns, port)
    summarizers: dict = {}
    kept: dict = {}

    def take(session: CapturedSession, batches) -> None:
        for rows in batches:
            summarizers.setdefault(session.key, Summarizer()).add(rows)
            kept.setdefault(session.key, []).append(rows)

    newest = 0
    for number, (ns, octets) in enumerate(packets):
        newest = max(newest, ns)
        packet = frame.datagram(octets, 101)
        assert packet is not None
        sessions.add(packet, ns)
        if number % every == every - 1:
            for session in sessions.found.values():
                take(session, session.settle(newest))
    for session in sessions.found.values():
        take(session, session.finish(newest))
    return Told(
        list(sessions.found.values()), list(summarizers.values()), [np.concatenate(rows) for rows in kept.values()]
    )


def stored(folder, records, timeout_ns: int, far_end: str = "agent"):
    """A run's folder with these packets and a document around them."""
    from dataclasses import replace

    from linkqual import document, store
    from linkqual.model import Measurement, StampResult, Step
    from tests.document.sample import DOCUMENT

    run = store.Run(folder)
    packets = run.save_packets("stamp")
    packets.write(records)
    packets.close()
    summarizer = Summarizer()
    summarizer.add(records)
    result = StampResult(summarizer.summary(), rate_pps=1000.0, packet_bytes=64, timeout_ns=timeout_ns, far_end=far_end)
    measured = Measurement(Step("stamp", "stamp", {}), T, MS, stamp=result)
    run.write_document(document.dump(replace(DOCUMENT, measurements=(measured,))))
    return folder
