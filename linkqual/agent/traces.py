"""Traces at the agent: of the way to the near end, and what answers that end's own. Floor 5.

| request | answer |
| --- | --- |
| `trace` | a model.Trace as an object: from here to the near end's address, whoever asks |
| `trace.target` | `port`: a UDP port of the address the near end reached that answers its trace, for so many seconds (a minute, unless told) or until the next request about traces |
"""

from __future__ import annotations

import functools
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from linkqual.agent.load import Session
from linkqual.errors import PeerError
from linkqual.model import Json

if TYPE_CHECKING:
    from linkqual.net.trace import Target

TARGET_S = 60  # whatever the cap


class Traces:
    """Of one near end: one target at a time."""

    def __init__(self, session: Session, family: int) -> None:
        self._session, self._family = session, family
        self._target: Target | None = None
        self._halted = False

    async def serve(self, verb: str, arguments: dict[str, Any]) -> dict[str, Json]:
        """Answer `trace` (verb "") or `trace.target`. PeerError when it is refused."""
        found: dict[str, Json] = await (self._open if verb == "target" else self._trace)(**arguments)
        return found

    def halt(self) -> None:
        """End the trace under way, soon."""
        self._halted = True

    async def _trace(
        self, *, source_port: int, destination_port: int, max_hops: int, rounds: int, tos: int
    ) -> dict[str, Json]:
        from linkqual.net.trace import trace

        await self.close_all()  # the target holds the port the trace is to come from
        session = self._session
        follow = functools.partial(
            trace,
            session.near,
            source_port=source_port,
            destination_port=destination_port,
            family=self._family,
            source=session.here,
            max_hops=max_hops,
            rounds=rounds,
            tos=tos,
            interrupted=lambda: self._halted,
        )
        return asdict(await session.run(follow))

    async def _open(self, *, port: int | None, seconds: int) -> dict[str, Json]:
        from linkqual.net.trace import DEFAULT_PORT, Target

        session = self._session
        if seconds > TARGET_S:
            session.config.caps.allow("max_seconds", seconds, "seconds")
        await self.close_all()
        for candidate in [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + 100):
            target = Target(session.here, candidate, session.near, self._family, seconds=seconds)
            if target.error is None:
                self._target = target
                return {"port": target.port}
        raise PeerError("that UDP port is in use at the far end", "ask for another", "busy")

    async def close_all(self) -> None:
        """End what answers. Safe to call twice."""
        target, self._target = self._target, None
        if target is not None:
            await self._session.run(target.close)
