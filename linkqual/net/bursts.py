"""Handles of the processes that send and receive training bursts. Every call raises HostError when the process died. Floor 3."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from linkqual.errors import HostError
from linkqual.net.bursts_ends import BurstConfig
from linkqual.net.process import ANSWER, REPORT, ChildProcess, Json
from linkqual.session.bursts import SENT, Shape, arrived

Rows = npt.NDArray[np.void]
ANSWER_S = 15.0  # of a living process on a busy host; of a dead one is heard at once


class BurstEnd:
    """One end of one direction. `rows` and `look` are cumulative: what was told is kept here."""

    def __init__(self, role: str, config: BurstConfig, launcher: Sequence[str] = ()) -> None:
        """`role`: "burst-sender" or "burst-receiver". Returns when its sockets are open. Raises HostError, PeerError."""
        self._dtype = SENT if role == "burst-sender" else arrived(Shape(**config.shape).positions)
        self._process = ChildProcess(role, asdict(config), launcher)
        self.ports: list[int] = list(self._process.ready["ports"])
        self.receive_buffer_bytes: int = self._process.ready["receive_buffer_bytes"]
        self._new: list[Rows] = []

    @property
    def pid(self) -> int:
        """Process id, for those who watch over it."""
        return self._process.pid

    def start(self, period_ns: int) -> None:
        """The sender begins with the first burst; the next one starts so much later."""
        self._process.tell({"do": "start", "period_ns": period_ns})

    def look(self) -> Json:
        """How far it is (`net.bursts_sender`, `net.bursts_receiver`)."""
        return self._ask("look", ANSWER)

    def stop(self) -> Json:
        """End it; the last look."""
        try:
            return self._ask("stop", REPORT)
        finally:
            self.close()

    def rows(self) -> Rows:
        """Bursts settled since the last call."""
        new, self._new = self._new, []
        return np.concatenate([np.zeros(0, self._dtype), *new])

    def close(self) -> None:
        """End it without asking for anything; idempotent."""
        self._process.close()

    def _ask(self, what: str, kind: bytes) -> Json:
        self._process.tell({"do": what})
        try:
            answer = self._process.expect(
                kind, ANSWER_S, chunk=lambda rows: self._new.append(np.frombuffer(rows, self._dtype))
            )
        except HostError:  # a late answer must not pass for that of the next question
            self.close()
            raise
        told: Json = json.loads(answer)
        return told
