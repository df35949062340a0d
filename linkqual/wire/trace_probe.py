"""What a trace's probes carry, and the answer of a target that expects them.

    0               2                                22
    +---------------+--------------------------------+- - - - - - -+
    | probe number  | "linkqual trace probe" (reply) | number zeros |
    +---------------+--------------------------------+- - - - - - -+

The number stands in the payload, and again in the UDP length: routers may quote no more than the UDP header (RFC 792), and
neither is looked at by a load balancer. A reply is as long as its probe, and no target answers a reply. Floor 1, pure.
"""

from __future__ import annotations

from linkqual.errors import WireError

MAX_NUMBER = 1200  # keeps a probe within the smallest MTU of IPv6

_PROBE, _REPLY = b"linkqual trace probe", b"linkqual trace reply"
_BASE_BYTES = 2 + len(_PROBE)
_UDP_HEADER_BYTES = 8


def encode(number: int) -> bytes:
    """UDP payload of a probe."""
    return number.to_bytes(2) + _PROBE + bytes(number)


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


def reply(payload: bytes) -> bytes:
    """A target's answer, as long as the probe. Raises WireError when it is no probe."""
    return number_of_quote(payload).to_bytes(2) + _REPLY + payload[_BASE_BYTES:]
