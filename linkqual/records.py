"""The table of packets: one row a packet sent, in the order of its Session-Sender sequence number.

`ABSENT` stands for "did not happen" (no stamp, no reply); zero is a value. On disk the same columns are Arrow nulls.
Floor 1, pure (numpy only).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np
import numpy.typing as npt

ABSENT = -(2**63)  # "did not happen" in an int64 column
UNKNOWN_TOS = -1  # nobody told how a packet arrived: 0 to 255 are all values


class Fate(IntEnum):
    """What became of a packet. LOST: lost, direction not (yet) known."""

    RECEIVED = 0
    LOST_FORWARD = 1
    LOST_REVERSE = 2
    LOST = 3
    UNSENT = 4


class Stamp(IntFlag):
    """Which of the four stamps are the kernel's (low half) or the NIC's (high half); no bit: user space."""

    T1_KERNEL = 1
    T2_KERNEL = 2
    T3_KERNEL = 4
    T4_KERNEL = 8
    T1_HARDWARE = 16
    T2_HARDWARE = 32
    T3_HARDWARE = 64
    T4_HARDWARE = 128

    ALL_KERNEL = 15


RECORD = np.dtype(
    [
        ("seq", "<i8"),  # Session-Sender sequence number, unwrapped
        ("intended_ns", "<i8"),  # when the schedule wanted it out, UTC of the sender
        ("sent_ns", "<i8"),  # T1, UTC of the sender
        ("far_received_ns", "<i8"),  # T2, UTC of the reflector
        ("far_sent_ns", "<i8"),  # T3, UTC of the reflector
        ("received_ns", "<i8"),  # T4, UTC of the sender
        ("far_seq", "<i8"),  # the reflector's own counter: the order of arrival at the far end
        ("arrival", "<i8"),  # 0, 1, 2, ... in the order replies reached the sender
        ("packet_bytes", "<u2"),  # UDP payload
        ("forward_ttl", "u1"),  # TTL / Hop Limit seen by the reflector (0: unknown)
        ("reverse_ttl", "u1"),  # TTL / Hop Limit of the reply (0: unknown)
        ("forward_copies", "u1"),  # extra copies made on the way there
        ("reverse_copies", "u1"),  # extra copies made on the way back
        ("fate", "u1"),  # Fate
        ("stamps", "u1"),  # Stamp
        ("flow", "<u2"),  # 0 unless several flows share a step
        ("dscp", "u1"),  # DSCP sent
        ("tos", "u1"),  # TOS byte of the reply as received
        (
            "forward_tos",
            "<i2",
        ),  # TOS byte of the request as the far end received it (Class of Service TLV), or UNKNOWN_TOS
    ]
)

Records = npt.NDArray[np.void]


def empty_records(count: int, first_seq: int = 0) -> Records:
    """`count` rows of packets planned but not sent: fate UNSENT, every instant ABSENT."""
    rows = np.zeros(count, RECORD)
    rows["seq"] = np.arange(first_seq, first_seq + count)
    for name in (
        "intended_ns",
        "sent_ns",
        "far_received_ns",
        "far_sent_ns",
        "received_ns",
        "far_seq",
        "arrival",
    ):
        rows[name] = ABSENT
    rows["fate"] = Fate.UNSENT
    rows["forward_tos"] = UNKNOWN_TOS
    return rows
