"""Which datagrams of a capture are STAMP, and of which session: by what must be zero (RFC 8762 s4.2, s4.3), or by the port.

A Session-Sender sends zero in 28 octets of an unauthenticated packet and in 80 of an authenticated one, where a reply has
stamps: so both ends are known from single packets, whichever passed first. TWAMP-Light senders may put padding there; they are
found by the reflector's port. Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Hashable

from linkqual.session.captured import CapturedSession, Key
from linkqual.wire.frame import Datagram
from linkqual.wire.stamp import REFLECTOR_MBZ, SENDER_MBZ, Mode

MOST_SESSIONS = 256
_LEAST_REQUEST, _LEAST_REPLY = 14, 41  # of TWAMP (RFC 5357 s4.1.2, s4.2.1), whose Light form STAMP can talk to
_SENDER_MULTIPLIER = {  # where, in a reply, the Multiplier of the Session-Sender Error Estimate is
    Mode.UNAUTHENTICATED: 37,
    Mode.AUTHENTICATED: 73,
}


class Sessions:
    """Every session of a capture. `port`: the reflector's; without one, requests are known by what must be zero in them."""

    def __init__(self, timeout_ns: int, port: int | None = None) -> None:
        self.found: dict[Key, CapturedSession] = {}
        self.refused = 0  # packets of sessions beyond MOST_SESSIONS
        self._timeout_ns, self._port = timeout_ns, port

    def add(self, packet: Datagram, ns: int, place: Hashable = 0) -> CapturedSession | None:
        """Take a datagram captured at `ns`; the session it belongs to, None when it is not STAMP."""
        role = self._role(packet)
        if role is None:
            return None
        is_request, mode = role
        at = mode.timestamp_at + 10
        ssid = int.from_bytes(packet.payload[at : at + 2])
        if is_request:
            key = Key(packet.source, packet.source_port, packet.destination, packet.destination_port, ssid)
        else:
            key = Key(packet.destination, packet.destination_port, packet.source, packet.source_port, ssid)
            key = self._of_plain_reflector(key)
        session = self.found.get(key)
        if session is None:
            if len(self.found) >= MOST_SESSIONS:
                self.refused += 1
                return None
            session = self.found[key] = CapturedSession(key, mode, self._timeout_ns)
        (session.request if is_request else session.reply)(packet, ns, place)
        return session

    def _of_plain_reflector(self, key: Key) -> Key:
        """A reflector without RFC 8972 answers with SSID 0."""
        if key.ssid or key in self.found:
            return key
        return next((other for other in self.found if other[:4] == key[:4]), key)

    def _role(self, packet: Datagram) -> tuple[bool, Mode] | None:
        """Whether it is a request (else a reply), and the mode."""
        octets = packet.payload
        signed = len(octets) >= Mode.AUTHENTICATED and not any(octets[4:16])
        mode = Mode.AUTHENTICATED if signed else Mode.UNAUTHENTICATED
        ports = (packet.destination_port == self._port, packet.source_port == self._port)
        if self._port is not None and ports != (True, True):
            least = _LEAST_REQUEST if ports[0] else _LEAST_REPLY
            return (ports[0], mode) if any(ports) and len(octets) >= least else None
        if len(octets) < mode or not octets[mode.timestamp_at + 9]:
            return None
        if _zero(octets, SENDER_MBZ[mode]):
            return True, mode
        is_reply = octets[_SENDER_MULTIPLIER[mode]] and _zero(octets, REFLECTOR_MBZ[mode])
        return (False, mode) if is_reply else None


def _zero(octets: bytes, parts: tuple[slice, ...]) -> bool:
    return not any(any(octets[part]) for part in parts)
