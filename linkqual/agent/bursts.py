"""Training bursts at the agent: one process for each direction, for one near end, within the caps. Floor 5.

| request | answer |
| --- | --- |
| `bursts.open` | `session` (to name it in the others), `port`, `token` (of every packet, hexadecimal), `buffer_bytes` (of its sockets, as granted) |
| `bursts.start` | nothing: the first burst leaves now, to where the near end's words came from |
| `bursts.look` | how far it is (`net.bursts_sender`, `net.bursts_receiver`), and `rows`: base64 of zlib of what was settled since the last one |
| `bursts.close` | the same, all of it; nothing is left here |
"""

from __future__ import annotations

import asyncio
import math
import secrets
import zlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from linkqual.agent.load import GRACE_S, opening
from linkqual.agent.load import Session as LoadSession
from linkqual.errors import PeerError
from linkqual.model import Json
from linkqual.session.bursts import Shape
from linkqual.units import NS_PER_S
from linkqual.wire.control import bytes_text
from linkqual.wire.load import HEADERS

if TYPE_CHECKING:
    from linkqual.net.bursts import BurstEnd

MOST = 4  # of one near end at a time
BURST_BYTES = 2**30  # the most one burst may hold: both ends keep a note of every packet of it


@dataclass(slots=True)
class _Open:
    end: BurstEnd
    sends: bool
    packet_bytes: int  # at the IP layer
    shape: Shape


class Bursts:
    """All bursts of one near end."""

    def __init__(self, session: LoadSession) -> None:
        self._session = session
        self._open: dict[str, _Open] = {}

    async def serve(self, verb: str, arguments: dict[str, Json]) -> dict[str, Json]:
        """One request. PeerError when it is refused."""
        if verb == "open":
            return await self._start(**arguments)
        name = arguments["session"]
        if name not in self._open:
            raise PeerError("this session has no such bursts", "open them first", "state")
        one = self._open[name]
        if verb == "start":
            shape = replace(one.shape, period_ns=arguments["period_ns"])
            self._session.config.caps.allow("max_seconds", math.ceil(_seconds(shape)), "seconds")
            self._session.may_run(_key(name), _seconds(shape) + GRACE_S)
            await self._session.run(one.end.start, arguments["period_ns"])
            return {}
        if verb == "look":
            return await self._told(one, last=False)
        del self._open[name]
        self._session.may_run(_key(name), 0)
        moved = self._session.promised.pop(_key(name), 0)  # unless it tells: all of it
        try:
            told = await self._told(one, last=True)
            moved = int(told["packets" if one.sends else "received"]) * one.packet_bytes
        finally:
            self._session.moved(moved)
        return told

    async def close_all(self) -> None:
        """End them, without asking what they counted."""
        ends, self._open = self._open, {}
        await asyncio.gather(*(self._session.run(one.end.close) for one in ends.values()), return_exceptions=True)

    async def _start(self, *, direction: str, **asked: Json) -> dict[str, Json]:
        from linkqual.net.bursts import BurstEnd
        from linkqual.net.bursts_ends import BurstConfig

        if len(self._open) >= MOST:
            raise PeerError(f"this session has {MOST} kinds of bursts open already", "close one first", "state")
        session, sends = self._session, direction == "reverse"
        shape = Shape(**asked)
        config = BurstConfig(
            session=secrets.randbits(63),
            peer_address=session.near,
            shape=asdict(shape),
            bind_address=session.here,
            max_packets=self._allowed(shape, sends=sends),
        )
        name = secrets.token_hex(8)

        def start() -> None:  # put down at once: the session may be over before anybody awaits this
            end = BurstEnd("burst-sender" if sends else "burst-receiver", replace(config, port=session.free_port()))
            self._open[name] = _Open(end, sends, self._size(shape), shape)

        await opening(session.run, start)
        session.promised[_key(name)] = config.max_packets * self._size(shape)
        end = self._open[name].end
        session.may_run(_key(name), _seconds(shape) + GRACE_S)
        session.log(f"bursts, {direction}, on port {end.ports[0]}: {shape.bursts:,} of {shape.packets:,} packets")
        opened = {"session": name, "port": end.ports[0], "token": f"{config.session:x}"}
        return opened | {"buffer_bytes": end.receive_buffer_bytes}

    def _allowed(self, shape: Shape, *, sends: bool) -> int:
        """Packets that may move within the caps, repeated ones included. PeerError when more is asked for."""
        caps, size = self._session.config.caps, self._size(shape)
        if shape.packets * size > BURST_BYTES:
            raise PeerError(f"a burst of more than {BURST_BYTES:,} bytes", "ask for smaller ones", "cap")
        if sends:
            caps.allow("max_bps", round(size * 8 * NS_PER_S / shape.gap_ns), "bits a second of load")
        caps.allow("max_seconds", math.ceil(_seconds(shape)), "seconds")
        left = self._session.bytes_left()
        caps.allow("max_bytes", caps.max_bytes - left + shape.bursts * shape.packets * size, "bytes in this session")
        return max(1, min(left // size, shape.bursts * shape.packets + shape.most_repeats))

    def _size(self, shape: Shape) -> int:
        """Of a packet, at the IP layer."""
        return shape.packet_bytes + HEADERS[6 if ":" in self._session.here else 4]

    async def _told(self, one: _Open, *, last: bool) -> dict[str, Json]:
        found: dict[str, Json] = await self._session.run(one.end.stop if last else one.end.look)
        return found | {"rows": bytes_text(zlib.compress(one.end.rows().tobytes(), 1))}


def _key(name: str) -> str:
    return f"bursts {name}"


def _seconds(shape: Shape) -> float:
    """How long the bursts take where none is late."""
    return shape.bursts * max(shape.period_ns, shape.transfer_ns) / NS_PER_S
