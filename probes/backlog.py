"""Drains an iterator in a thread, so that its producer never waits while the consumer asks the far end something. Floor 4."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Backlog(Generic[Item]):
    """Iterates over what `source` gives, in order; an exception of the source is raised here, after what came before it.

    The queue has no bound: it grows only while the consumer is held up, and a packet stream that waits for its reader
    would spoil its own pacing.
    """

    def __init__(self, source: Iterable[Item]) -> None:
        self._items: queue.SimpleQueue[tuple[bool, Item | BaseException | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._drain, args=(source,), name="backlog", daemon=True)
        self._thread.start()

    def _drain(self, source: Iterable[Item]) -> None:
        try:
            for item in source:
                self._items.put((True, item))
            self._items.put((False, None))
        except BaseException as error:
            self._items.put((False, error))

    def __iter__(self) -> Iterator[Item]:
        while True:
            more, item = self._items.get()
            if more:
                yield item  # type: ignore[misc]
            elif item is None:
                self._thread.join()
                return
            else:
                assert isinstance(item, BaseException)
                raise item
