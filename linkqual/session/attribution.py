"""What the far end knows, brought to the near end's records: on which way a packet was lost, when the last replies really left. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkqual.errors import InputError
from linkqual.records import Fate, Records, Stamp


def attribute(records: Records, first_seq: int, arrived: bytes) -> None:
    """Give rows of fate LOST their direction, in place (RFC 6673: one-way losses told apart).

    `arrived`: one bit a Session-Sender sequence number from `first_seq` on, lowest bit first: the packet reached the far end.
    A lost packet that did was lost on the way back, one that did not on the way there. Raises InputError when the bitmap
    does not cover a lost row.
    """
    lost = np.flatnonzero(records["fate"] == Fate.LOST)
    if not len(lost):
        return
    at = records["seq"][lost] - first_seq
    bits = np.frombuffer(arrived, np.uint8)
    if at.min() < 0 or at.max() >= 8 * len(bits):
        raise InputError(
            f"the far end's bitmap covers packets {first_seq} to {first_seq + 8 * len(bits) - 1}, "
            f"losses lie in {at.min() + first_seq} to {at.max() + first_seq}"
        )
    reached = (bits[at >> 3] >> (at & 7).astype(np.uint8)) & 1
    records["fate"][lost] = np.where(reached, Fate.LOST_REVERSE, Fate.LOST_FORWARD)


def apply_far_stamps(records: Records, stamps: Sequence[Sequence[int]]) -> int:
    """Fill in T3 where it still is the far program's, in place, from [[far_seq, kernel TX stamp], ...]; how many rows gained it.

    The far end's last stamps found no later reply to travel in: the reflector hands them over when the session is closed.
    """
    if not len(stamps):
        return 0
    table = np.array(stamps, np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    wanting = np.flatnonzero((records["fate"] == Fate.RECEIVED) & ((records["stamps"] & Stamp.T3_KERNEL) == 0))
    far = records["far_seq"][wanting]
    at = np.minimum(np.searchsorted(table[:, 0], far), len(table) - 1)
    found = table[at, 0] == far
    rows = wanting[found]
    records["far_sent_ns"][rows] = table[at[found], 1]
    records["stamps"][rows] |= int(Stamp.T3_KERNEL)
    return len(rows)
