"""Asks the hops toward the near end while that loads the line, at the agent. Floor 5.

| request | answer |
| --- | --- |
| `hops.open` | nothing: from now on each of these TTLs is asked about once a second, until `hops.close` or for so many seconds |
| `hops.close` | what was asked and answered: see `wire.hops_json` |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from linkqual.agent.load import Session
from linkqual.errors import HostError, PeerError
from linkqual.model import Json
from linkqual.wire import hops_json

if TYPE_CHECKING:
    from linkqual.net.hop_watch import HopWatch
    from linkqual.session.hop_watch import Asked

MOST_HOPS = 64
PROBE_BYTES = 1250  # of an IP packet, at most


class Hops:
    """Of one near end: one watch at a time."""

    def __init__(self, session: Session, family: int, free_port: Callable[[], Awaitable[None]]) -> None:
        """`free_port`: ends what answers a trace here, for it holds the port the probes come from."""
        self._session, self._family, self._free_port = session, family, free_port
        self._watch: HopWatch | None = None

    async def serve(self, verb: str, arguments: dict[str, Any]) -> dict[str, Json]:
        """Answer `hops.<verb>`. PeerError when it is refused."""
        found: dict[str, Json] = await getattr(self, f"_{verb}")(**arguments)
        return found

    async def _open(
        self, *, source_port: int, destination_port: int, ttls: list[int], seconds: float, base: int, tos: int
    ) -> dict[str, Json]:
        from linkqual.net.hop_watch import HopWatch

        session = self._session
        session.config.caps.allow("max_seconds", round(seconds), "seconds")
        session.bytes_left()
        if not ttls or len(set(ttls)) < len(ttls) or not all(1 <= ttl <= MOST_HOPS for ttl in ttls):
            raise PeerError(
                f"hops are TTLs from 1 to {MOST_HOPS}, each once", "ask for those of a trace", "bad-request"
            )
        await self.close_all()
        await self._free_port()

        def start() -> None:
            try:
                self._watch = HopWatch(
                    session.near, source_port, destination_port, ttls, self._family, session.here,
                    seconds=seconds, base=base, tos=tos,
                )  # fmt: skip
            except OSError as error:
                raise HostError(
                    f"UDP port {source_port} cannot be had for probes of hops: {error.strerror or error}",
                    "see what else uses it there",
                ) from None

        await session.run(start)
        session.may_run("hops", seconds)
        return {}

    async def _close(self) -> dict[str, Json]:
        if self._watch is None:
            raise PeerError("this session asks no hops", "open that first", "state")
        asked, ended_ns = await self._ended()
        return hops_json.encode([(one.ttl, one.sent_ns, one.rtt_ns, one.address) for one in asked], ended_ns)

    async def close_all(self) -> None:
        """End it. Safe to call twice."""
        await self._ended()

    async def _ended(self) -> tuple[list[Asked], int]:
        """What was asked, and for how long; what it sent counts against the caps."""
        watch, self._watch = self._watch, None
        if watch is None:
            return [], 0
        asked, ended_ns = await self._session.run(watch.stop)
        self._session.may_run("hops", 0)
        self._session.moved(len(asked) * PROBE_BYTES)
        return asked, ended_ns
