"""Loads of our own UDP engine at the agent: one process each, for one near end, within the caps. Floor 5.

| request | answer |
| --- | --- |
| `load.open` | `session` (to name it in the others), `port`, `token` (of every packet), `buffer_bytes` (of its sockets, as granted) |
| `load.begin` | nothing: from now on that phase is awaited, or sent to where the near end's greetings came from |
| `load.look` | counts so far: see `net.load.LoadEnd.look` |
| `load.halt` | nothing: this phase is sent no further |
| `load.result` | `counts`: packed text of JSON: all counts of the phase, see `session.load_result` |
| `load.arrivals` | `rows`: base64 of zlib of rows of `wire.load.ARRIVAL`, at most 100,000 from `first` on |
| `load.close` | `dropped`: packets its own sockets lost to full buffers |
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import secrets
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkqual.agent.config import AgentConfig
from linkqual.errors import HostError, PeerError, UsageError
from linkqual.model import Json
from linkqual.session.load_caps import asked_packets, expected_ns
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S
from linkqual.wire.control import bytes_text, packed_text

if TYPE_CHECKING:
    from linkqual.net.load import LoadEnd

MOST = 32  # loads of one near end at a time: several services, both directions
ATTEMPTS = 3  # to bind a port
SILENCE_NS = 5 * NS_PER_S  # a near end that tells nothing of what arrives is sent nothing more
GRACE_S = 30.0
NO_CAP_BPS = 10**12

Run = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class _Load:
    end: LoadEnd
    sends: bool
    flows: int
    longest: int
    begun: bool = False
    counted: int = 0  # bytes of its last phase that the session knows of


@dataclass(slots=True)
class Session:
    """What a load needs of the near end's session. `bytes_left` raises PeerError when that is nothing.

    `promised`: bytes that what runs may still move, by its name; they are no longer left.
    """

    config: AgentConfig
    near: str
    here: str
    run: Run  # blocking work in a thread
    free_port: Callable[[], int]
    bytes_left: Callable[[], int]
    moved: Callable[[int], None]
    promised: dict[str, int]
    may_run: Callable[[str, float], None]
    log: Callable[[str], None]


async def opening(run: Run, start: Callable[[], None]) -> None:
    """Look for a free port and bind it, in a thread. Again on a HostError: somebody else may take the port between the two."""
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(HostError):
            await run(start)
            return
    await run(start)


class Loads:
    """All loads of one near end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[str, _Load] = {}

    async def serve(self, verb: str, arguments: dict[str, Any]) -> dict[str, Json]:
        """Answer `load.<verb>`, a key of `wire.requests.REQUESTS`, with checked arguments."""
        answer: dict[str, Json] = await self._SERVED[verb](self, **arguments)
        return answer

    async def open_(self, *, direction: str, flows: int, longest: int, dscp: int) -> dict[str, Json]:
        """See the module's head."""
        from linkqual.net.load import LoadEnd
        from linkqual.net.load_ends import LoadConfig

        if len(self._open) >= MOST:
            raise PeerError(f"this session has {MOST} loads already", "close one first", "state")
        session, sends = self._session, direction == "reverse"
        token, name = secrets.randbits(32), secrets.token_hex(8)
        config = LoadConfig(
            token=token,
            peer_address=session.near,
            flows=flows,
            longest=longest,
            bind_address=session.here,
            dscp=dscp,
            max_bytes=session.bytes_left(),
            silence_ns=SILENCE_NS if sends else 0,
        )

        def start() -> None:  # put down at once: the session may be over before anybody awaits this
            end = LoadEnd.start("load-sender" if sends else "load-receiver", replace(config, port=session.free_port()))
            self._open[name] = _Load(end, sends, flows, longest)

        await opening(session.run, start)
        load = self._of(name)
        session.log(f"UDP load, {direction}, on port {load.end.ports[0]}: {flows} flows")
        return {"session": name, "port": load.end.ports[0], "token": token, "buffer_bytes": load.end.buffer_bytes}

    async def begin(
        self, *, session: str, number: int, window_bytes: int, sizes: list[int], **asked: Any
    ) -> dict[str, Json]:
        """See the module's head. Refused as a whole when the phase is over a cap."""
        load = self._of(session)
        try:
            phase = Phase(name="", sizes=tuple(zip(sizes[::2], sizes[1::2], strict=True)), **asked)
        except (UsageError, ValueError) as error:
            raise PeerError(f"no phase of load: {error}", "ask for another", "bad-request") from error
        if phase.flows > load.flows or phase.longest > load.longest + 48:
            raise PeerError("more flows or longer packets than this load was opened for", "open another", "bad-request")
        await self._count(session, load)
        kept, promised = self._session.promised.pop(_key(session), 0), self._session.promised
        try:
            phase, promised[_key(session)] = self._allowed(phase, sends=load.sends)
        except PeerError:
            promised[_key(session)] = kept
            raise
        load.begun, load.counted = True, 0
        self._session.may_run(_key(session), expected_ns(phase) / NS_PER_S + GRACE_S)
        await self._session.run(load.end.begin, number, phase, window_bytes)
        return {}

    def _allowed(self, phase: Phase, *, sends: bool) -> tuple[Phase, int]:
        """The phase within the caps, and the bytes it may move: what has no rate or no end gets the cap's; PeerError when it asks for more.

        Of a phase whose bytes nobody knows it is all that is left, if this end sends; what the near end sends is its own to bound.
        """
        caps = self._session.config.caps
        if sends:
            caps.allow("max_bps", phase.rate_bps, "bits a second of load")
            if not phase.rate_bps and caps.max_bps < NO_CAP_BPS:
                phase = replace(phase, rate_bps=caps.max_bps)
        caps.allow("max_seconds", expected_ns(phase) // NS_PER_S, "seconds")
        packets, left = asked_packets(phase), self._session.bytes_left()
        most = (left if sends else 0) if packets is None else math.ceil(packets * phase.mean_bytes)
        if most > left:
            caps.allow("max_bytes", caps.max_bytes - left + most, "bytes in this session")
        if not phase.duration_ns:
            phase = replace(phase, duration_ns=caps.max_seconds * NS_PER_S)
        return phase, most

    async def look(self, session: str) -> dict[str, Json]:
        """See the module's head."""
        found: dict[str, Json] = await self._session.run(self._of(session).end.look)
        return found

    async def halt(self, session: str) -> dict[str, Json]:
        """See the module's head."""
        await self._session.run(self._of(session).end.halt)
        return {}

    async def result(self, session: str) -> dict[str, Json]:
        """See the module's head."""
        load = self._of(session)
        found: dict[str, Json] = await self._session.run(load.end.result)
        self._moved(session, load, found)
        return {"counts": packed_text(json.dumps(found))}  # a day of seconds is too much for a plain message

    async def arrivals(self, session: str, first: int, count: int) -> dict[str, Json]:
        """See the module's head."""
        load = self._of(session)
        if load.sends:
            raise PeerError("this end sends: it has no arrivals", "ask the receiver", "state")
        rows = await self._session.run(load.end.arrivals, first, count)
        return {"rows": bytes_text(zlib.compress(rows.tobytes(), 1)), "count": len(rows)}

    async def close(self, session: str) -> dict[str, Json]:
        """See the module's head."""
        load = self._of(session)
        try:
            await self._count(session, load)
        except HostError:  # its process is gone: all it was promised may have moved
            self._session.moved(self._session.promised.get(_key(session), 0))
        del self._open[session]
        self._session.promised.pop(_key(session), None)
        self._session.may_run(_key(session), 0)
        final: dict[str, Json] = await self._session.run(load.end.stop)
        return final

    _SERVED: dict[str, Callable[..., Awaitable[dict[str, Json]]]] = {  # noqa: RUF012  a table of methods
        "open": open_, "begin": begin, "look": look, "halt": halt, "result": result, "arrivals": arrivals, "close": close,
    }  # fmt: skip

    async def close_all(self) -> None:
        """End them, without asking what they counted."""
        loads, self._open = self._open, {}
        await asyncio.gather(*(self._session.run(load.end.close) for load in loads.values()), return_exceptions=True)

    async def _count(self, session: str, load: _Load) -> None:
        """Bytes of its last phase move from what is promised to what has moved."""
        if not load.begun:
            return
        self._moved(session, load, await self._session.run(load.end.look))

    def _moved(self, session: str, load: _Load, found: dict[str, Json]) -> None:
        moved = int(found["sent_bytes" if load.sends else "received_bytes"]) - load.counted
        load.counted += moved
        self._session.moved(moved)
        promised, over = self._session.promised, load.sends and bool(found["ended_by"])
        promised[_key(session)] = 0 if over else max(0, promised.get(_key(session), 0) - moved)

    def _of(self, session: str) -> _Load:
        if session not in self._open:
            raise PeerError("this session has no such load", "open one first", "state")
        return self._open[session]


def _key(session: str) -> str:
    return f"load {session}"
