"""Loss by direction from the two counters of a captured session: the sender's, and the reflector's own (RFC 8762 s4.3).

By totals on the largest numbers seen, which reordering does not disturb: what was sent less what the reflector answered was
lost on the way there, what it answered less what came was lost on the way back. A copy made on the way there is answered twice,
under two numbers. Floor 2, pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.wire.stamp import SEQUENCE_MODULUS

_HALF = SEQUENCE_MODULUS // 2


def unwrapped(number: int, near: int) -> int:
    """The number of 32 bits nearest to one that is unwrapped already."""
    return near + ((number - near + _HALF) % SEQUENCE_MODULUS - _HALF)


@dataclass(frozen=True, slots=True)
class Attribution:
    """Where unanswered packets were lost. None: nobody can tell, `reason` says why."""

    forward: int | None = None
    reverse: int | None = None
    tail: int = 0  # sent after the last one answered: lost either way, or still under way
    head: int = 0  # sent before the first one answered, in a session whose beginning was not captured
    reason: str = ""


class Numbers:
    """Both counters of one session; requests and replies in the order they were captured."""

    def __init__(self) -> None:
        self._first: int | None = None  # smallest and largest number sent
        self._last = 0
        self._base: tuple[int, int] | None = None  # numbers (sender's, reflector's) before the first one counted
        self._top = (0, 0)  # the largest of each that was answered
        self._distinct = self._copies = 0
        self._counts = False  # the reflector has numbers of its own

    def sent(self, seq: int) -> None:
        """A request of this number passed."""
        self._first = seq if self._first is None else min(self._first, seq)
        self._last = max(self._last, seq)

    def unwrap(self, number: int) -> int:
        """A number of the reflector's."""
        return unwrapped(number, self._top[1])

    def answered(self, seq: int, number: int, known: set[int], *, counting: bool) -> int:
        """The reflector's number of a reply to `seq`, unwrapped.

        `known`: those of earlier replies to the same request. `counting`: the reply shows that the reflector keeps state.
        """
        if self._base is None:
            self._top = (seq, number)
            begins = self._first == 0 and number <= seq  # both count from zero: what was lost before it is known too
            self._base = (-1, -1) if begins else (seq - 1, number - 1)
        far = self.unwrap(number)
        self._counts |= counting or far != seq
        if far not in known:
            self._distinct += far > self._base[1]
            self._copies += bool(known)
        self._top = (max(self._top[0], seq), max(self._top[1], far))
        return far

    def attribution(self) -> Attribution:
        """Of everything up to the last reply."""
        if self._base is None:
            return Attribution(reason="no reply: a line that is cut, or nobody who answers")
        tail = max(0, self._last - self._top[0])
        head = max(0, self._base[0] + 1 - self._first) if self._first else 0
        arrived = self._top[1] - self._base[1]
        forward = self._top[0] - self._base[0] - (arrived - self._copies)
        reverse = arrived - self._distinct
        if not self._counts and (forward or reverse):
            why = "the reflector's numbers equal the sender's: it keeps no state, or all losses are on the way back"
            return Attribution(tail=tail, head=head, reason=why)
        if forward < 0 or reverse < 0:
            return Attribution(tail=tail, head=head, reason="the reflector's numbers do not fit the sender's")
        return Attribution(forward, reverse, tail, head)
