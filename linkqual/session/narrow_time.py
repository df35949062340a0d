"""How much time a search has left, and what each train takes of it besides its sending. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass

ROUND_NS = 250_000_000  # what each train takes besides its sending, until that is known
PREFIX_NS = 150_000_000  # of a train to one router, mostly
_PROFILE = 0.8  # of the time, after which only the search itself goes on


@dataclass(slots=True)
class Budget:
    """Instants in ns since the search was begun. `round_ns`: what a turn takes besides sending and rest, learned from those before."""

    most_ns: int
    now_ns: int = 0
    round_ns: int = ROUND_NS
    _due_ns: int = 0  # of what was asked for last, sending and rest

    def turn(self, now_ns: int) -> None:
        """The train asked for last is over; 0: the time is as reckoned."""
        if now_ns:
            if self._due_ns:
                self.round_ns = (self.round_ns + max(0, now_ns - self.now_ns - self._due_ns)) // 2
            self.now_ns = now_ns
        elif self._due_ns:
            self.now_ns += self._due_ns + self.round_ns
        self._due_ns = 0

    def ask(self, due_ns: int) -> None:
        """A train is asked for that takes so long, its rest included."""
        self._due_ns = due_ns

    def left_ns(self, kept: int = 0) -> int:
        """For sending, and rest before it; without what so many trains to single routers take."""
        return self.most_ns - self.now_ns - self.round_ns - kept * (self.round_ns + PREFIX_NS)

    @property
    def late(self) -> bool:
        """Whether only what the search itself needs may still be sent."""
        return self.now_ns > _PROFILE * self.most_ns
