"""Ctrl-C and TERM: outside a measurement they end the command, during one they ask it to end and keep what it has."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ONE_PRESS_S = 0.8  # a terminal sends Ctrl-C to every process of the group, so one press may arrive twice


class Interrupted(BaseException):
    """A signal ended the command before anything was measured. Not an Exception: no handler may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number


def _raise(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)


def raise_on_signals() -> None:
    """From now on a signal raises Interrupted in the main thread."""
    for number in heeded():
        signal.signal(number, _raise)


def heeded() -> tuple[signal.Signals, ...]:
    """The signals that end a command; not the hang-up of the terminal under `nohup`."""
    deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(number for number in _SIGNALS if not (deaf and number is signal.SIGHUP))


class Gently:
    """While this context lasts the first signal is only remembered; a second one raises Interrupted."""

    def __init__(self) -> None:
        self.signal = 0
        self._first = 0.0
        self._before: dict[int, Any] = {}

    def __call__(self) -> str:
        """Why the run is to end; "" while it is not."""
        return signal.Signals(self.signal).name if self.signal else ""

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal and now - self._first > _ONE_PRESS_S:
            raise Interrupted(number)
        if not self.signal:
            self.signal, self._first = number, now

    def __enter__(self) -> Gently:
        self._before = {number: signal.signal(number, self._remember) for number in heeded()}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
