"""What the far end knows, brought to the near end's records: on which way a packet was lost, when the last replies really left.

Our agent tells which packets reached it; of a foreign reflector there are only the numbers in its replies. Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from linkqual.errors import InputError
from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records


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


# ---- by a foreign reflector's own numbers

STATEFUL, STATELESS, RESTARTED, UNTOLD = "stateful", "stateless", "restarted", "unknown"
FIRST_SEQ = (
    256  # of a session with a foreign reflector: a counter of its own begins elsewhere, a copied number does not
)
_SETTLED_ROWS = 256  # later rows after which a reply is taken to be no more overtaken on the way there
_MOST_HELD = 1 << 20  # rows without a reply; those of a longer outage stay without a direction
_RUN = 8  # replies in a row that must agree: a single one may have been under way for long
_OVERTAKEN = 32, 1 << 16  # places a run of replies may be put back by packets that overtook it: least and most allowed
_LOW_32 = 0xFFFF_FFFF


class Numbers:
    """Loss by direction from the numbers a stateful reflector gives its replies (RFC 8762 s4.3.1), on rows in order of sequence number.

    Between two replies the far end counted as many arrivals as its numbers differ: what was sent and not counted was lost on
    the way there, what was counted and not seen was lost on the way back. Where packets overtook each other the numbers of single
    gaps do not fit; the difference is carried on, so that the totals up to the last reply stay exact. Which packets of a gap were
    lost on which way is not known when it has both: the first ones are then called lost on the way there. What follows the
    last reply keeps fate LOST.

    A stateless reflector copies the sender's numbers: `kind` says so, and losses keep fate LOST. So do those beside and after a leap of
    the counter that no reordering explains: it began anew, and what it counted meanwhile is not known.
    """

    def __init__(self) -> None:
        self.kind = UNTOLD
        self.carried = 0  # losses that the next gaps owe to the way there; negative: that they owe to the way back
        self._held: list[Records] = []
        self._held_rows = 0
        self._far = -1  # number of the last reply settled
        self._known = True  # whether the count at the last row settled is known
        self._first = (0, 0)  # numbers (sender's, reflector's) of the first reply

    def take(self, rows: Records) -> Records:
        """The next settled rows; those that can be given a direction now, or need none."""
        if len(rows):
            self._held.append(rows)
            self._held_rows += len(rows)
        told = bool((rows["fate"] == Fate.RECEIVED).any()) and self._held_rows > _SETTLED_ROWS
        return self._settled(_SETTLED_ROWS) if told or self._held_rows > _MOST_HELD else _none()

    def close(self) -> tuple[Records, Records]:
        """(what can still be given a direction, the tail after the last reply)."""
        rows = self._settled(0)
        tail = np.concatenate(self._held) if self._held else _none()
        self._held, self._held_rows = [], 0
        return rows, tail

    def _settled(self, keep: int) -> Records:
        rows = np.concatenate(self._held) if self._held else _none()
        received = np.flatnonzero(rows["fate"] == Fate.RECEIVED)
        if self.kind == UNTOLD and len(received):
            self._look(rows[received[0]])
        counted = 0
        leap = self._leap(rows, received) if self.kind == STATEFUL else None
        if leap is not None:
            counted = self._attribute(rows, received[:leap], int(received[leap]))
            self.kind = RESTARTED
        if self.kind in (STATELESS, RESTARTED):
            rows["far_seq"][counted:] = ABSENT
            cut = (
                int(received[-1]) + 1 if len(received) else 0
            )  # the tail is not let go: it may be the far end's silence
        else:
            cut = self._attribute(rows, received, len(rows) - keep)
        if not cut and len(rows) > _MOST_HELD:
            cut, self._known = len(rows), False
        done, left = rows[:cut], rows[cut:]
        self._held, self._held_rows = [left] if len(left) else [], len(left)
        return done

    def _look(self, row: np.void) -> None:
        copied = (int(row["far_seq"]) - int(row["seq"])) & _LOW_32 == 0
        self.kind = STATELESS if copied else STATEFUL
        self._first = int(row["seq"]), int(row["far_seq"])

    def _leap(self, rows: Records, received: npt.NDArray[np.intp]) -> int | None:
        """Which of the replies is the first whose number shows that the counter began anew; None: it did not."""
        if len(received) < _RUN:
            return None
        runs = np.lib.stride_tricks.sliding_window_view(rows["far_seq"][received], _RUN)
        low, high = runs.min(axis=1), runs.max(axis=1)
        seq, far = self._first
        latest = np.maximum.accumulate(np.concatenate((np.full(_RUN, self._far), low)))[: len(low)]
        back = latest - high > np.clip((latest - far) // 2, *_OVERTAKEN)
        sent = rows["seq"][received[: len(low)]] - seq
        ahead = low - far > 3 * sent + _OVERTAKEN[1]  # each packet may have been copied on the way there
        leaps = np.flatnonzero(back | ahead)
        return int(leaps[0]) if len(leaps) else None

    def _attribute(self, rows: Records, received: npt.NDArray[np.intp], stop: int) -> int:
        """Give losses their direction up to the last reply before `stop` that nothing overtook; how many rows that are."""
        far = rows["far_seq"][received]
        latest = np.maximum.accumulate(np.concatenate(([self._far], far)))
        after = np.minimum.accumulate(np.concatenate((far[1:], [np.iinfo(np.int64).max]))[::-1])[::-1]
        clean = (far > latest[:-1]) & (far < after) & (received < stop)
        cuts = received[clean]
        if not len(cuts):
            return 0
        begins = np.concatenate(([0], cuts[:-1] + 1))
        fate = rows["fate"][: cuts[-1] + 1]
        sent = np.add.reduceat((fate != Fate.UNSENT).astype(np.int64), begins)
        lost = np.add.reduceat((fate == Fate.LOST).astype(np.int64), begins)
        copies = np.add.reduceat(rows["forward_copies"][: cuts[-1] + 1].astype(np.int64), begins)
        arrived = np.diff(far[clean], prepend=self._far) - copies
        for gap in np.flatnonzero((lost > 0) | (sent != arrived)).tolist():
            if gap == 0 and not self._begins(int(sent[0]), int(arrived[0])):
                continue
            part = rows[begins[gap] : cuts[gap] + 1]
            self._direct(part, int(sent[gap] - arrived[gap]), int(lost[gap]))
        self._far, self._known = int(far[clean][-1]), True
        return int(cuts[-1]) + 1

    def _begins(self, sent: int, arrived: int) -> bool:
        """Whether the first gap may be counted: its begin is known, and at the session's it is that of a counter from zero."""
        return self._known and (self._far >= 0 or 0 < arrived <= sent)

    def _direct(self, rows: Records, missing: int, lost: int) -> None:
        missing += self.carried
        there = max(0, min(missing, lost))
        self.carried = missing - there
        at = np.flatnonzero(rows["fate"] == Fate.LOST)
        rows["fate"][at[:there]] = Fate.LOST_FORWARD
        rows["fate"][at[there:]] = Fate.LOST_REVERSE


def _none() -> Records:
    return empty_records(0)
