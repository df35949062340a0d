"""What a trace's probes carry, and the answer of a target that expects them.

    0               2                                22
    +---------------+--------------------------------+- - - - - - -+- - - - - - -+
    | probe number  | "linkqual trace probe" (reply) | number zeros | room, zeros |
    +---------------+--------------------------------+- - - - - - -+- - - - - - -+

The number stands in the payload, and again in the UDP length (unless there is room): routers may quote no more than the UDP header
(RFC 792), and neither is looked at by a load balancer. A reply is as long as its probe, and no target answers a reply. Where a probe
came with Record Route (RFC 791) and has room for it, the reply's octet 22 says how many IPv4 addresses follow. Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

from linkqual.errors import WireError

ROOM = 1 + 4 * 9  # for all that Record Route can hold
MAX_NUMBER = 1200  # keeps a probe within the smallest MTU of IPv6

_PROBE, _REPLY = b"linkqual trace probe", b"linkqual trace reply"
_BASE_BYTES = 2 + len(_PROBE)
_UDP_HEADER_BYTES = 8


def encode(number: int, room: int = 0) -> bytes:
    """UDP payload of a probe; `room`: octets that the answer may fill."""
    return number.to_bytes(2) + _PROBE + bytes(number + room)


def number_of_length(udp_bytes: int) -> int:
    """The probe whose UDP Length field this is (header included); negative when it is none."""
    return udp_bytes - _UDP_HEADER_BYTES - _BASE_BYTES


def number_of_quote(payload: bytes) -> int:
    """The probe of which these are the first octets. Raises WireError when they are too few or not a probe's."""
    if len(payload) < _BASE_BYTES or payload[2:_BASE_BYTES] != _PROBE:
        raise WireError("the quoted octets are not from a trace's probe")
    return int.from_bytes(payload[:2])


def number_of_reply(payload: bytes) -> int:
    """The probe a target answers with this payload. Raises WireError."""
    if payload[2:_BASE_BYTES] != _REPLY:
        raise WireError("no reply of a trace's target")
    return int.from_bytes(payload[:2])


def reply(payload: bytes, recorded: Sequence[str] = ()) -> bytes:
    """A target's answer, as long as the probe, with the addresses its Record Route held. Raises WireError when it is no probe."""
    head = number_of_quote(payload).to_bytes(2) + _REPLY
    told = bytes([len(recorded)]) + b"".join(IPv4Address(address).packed for address in recorded)
    if not recorded or len(head) + len(told) > len(payload):
        return head + payload[_BASE_BYTES:]
    return head + told + payload[_BASE_BYTES + len(told) :]


def recorded_of_reply(payload: bytes) -> tuple[str, ...]:
    """The addresses a target's answer says the probe's Record Route held. Raises WireError."""
    number_of_reply(payload)
    count = payload[_BASE_BYTES] if len(payload) > _BASE_BYTES else 0
    told = payload[_BASE_BYTES + 1 : _BASE_BYTES + 1 + 4 * count]
    if len(told) < 4 * count:
        raise WireError("an answer of a trace's target is cut short")
    return tuple(str(IPv4Address(told[place : place + 4])) for place in range(0, len(told), 4))
