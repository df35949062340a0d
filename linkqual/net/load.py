"""One end of our own UDP load, in a process of its own: the parent's handle. Floor 3.

with LoadEnd.start("load-sender", LoadConfig(...)) as end:
    end.begin(1, phase)         returns at once
    end.look()                  counts so far
    end.result()                all that was counted, plain values
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.errors import HostError
from linkqual.net.load_ends import LoadConfig
from linkqual.net.process import ANSWER, BITMAP, REPORT, ChildProcess, Json
from linkqual.session.load_phase import Phase
from linkqual.session.load_schedule import planned
from linkqual.wire.load import ARRIVAL


class LoadEnd:
    """A sender or a receiver. Every call raises HostError when the process died."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._final: Json | None = None
        self.ports: list[int] = process.ready["ports"]
        self.address: str = process.ready["address"]
        self.buffer_bytes: int = process.ready["buffer"]

    @classmethod
    def start(cls, role: str, config: LoadConfig, launcher: Sequence[str] = ()) -> LoadEnd:
        """`role`: "load-sender" or "load-receiver". Raises HostError (address, port, rights) and PeerError (no way)."""
        return cls(ChildProcess(role, asdict(config), launcher))

    @property
    def pid(self) -> int:
        """Process id, for those who watch over it."""
        return self._process.pid

    def begin(self, number: int, phase: Phase, window_bytes: int = 0) -> None:
        """Send or await phase `number` (1, 2, ...) from now on; what was counted before is gone.

        `window_bytes`: the receiver's buffer, of which a sender without a rate fills no more than half.
        """
        more: dict[str, int | None] = {"window_bytes": window_bytes} if self.sends else {"most": planned(phase)}
        self._ask("begin", number=number, phase=asdict(phase), **more)

    @property
    def sends(self) -> bool:
        """Whether it is the sender."""
        return self._process.role == "load-sender"

    def look(self) -> Json:
        """Counts so far. Sender: sent, sent_bytes, ended_by ("" while it sends), silent_ns, told; receiver: received, quiet_ns, dropped, ..."""
        return self._ask("look")

    def halt(self) -> None:
        """Send no more of this phase."""
        self._ask("halt")

    def result(self) -> Json:
        """All that was counted: see `session.load_result`."""
        return self._ask("result")

    def arrivals(self, first: int, count: int) -> npt.NDArray[np.void]:
        """Rows of `wire.load.ARRIVAL` in the order packets came, of a phase that asked for them."""
        return np.frombuffer(bytes(self._answer(BITMAP, {"do": "arrivals", "first": first, "count": count})), ARRIVAL)

    def stop(self) -> Json:
        """End it: what its sockets dropped since they were opened. Idempotent."""
        if self._final is None:
            self._process.tell({"do": "stop"})
            try:
                self._final = json.loads(self._process.expect(REPORT))
            finally:
                self._process.close()
        return self._final

    def close(self) -> None:
        """End it without asking for anything; idempotent."""
        self._process.close()

    def _ask(self, what: str, **more: Any) -> Json:
        answer: Json = json.loads(self._answer(ANSWER, {"do": what, **more}))
        return answer

    def _answer(self, kind: bytes, asked: Json) -> bytearray:
        self._process.tell(asked)
        try:
            return self._process.expect(kind)
        except HostError:  # a late answer must not pass for that of the next question
            self._process.close()
            raise

    def __enter__(self) -> LoadEnd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
