"""The far end of a search for the path MTU, at the agent. Floor 5.

| request | answer |
| --- | --- |
| `mtu.open` | `port` (UDP, questions are answered there), `token` (of every question, hexadecimal) |
| `mtu.search` | a model.MtuWay as an object: how long packets from here to the near end may be; its end answers meanwhile |
| `mtu.listen` | `port` (TCP): one connection is taken, that many bytes are counted, as many are sent back |
| `mtu.heard` | what came of it: `mss_told`, `mss_heard`, `arrived_bytes`, `elapsed_ns`, `connected` |
| `mtu.close` | nothing left here |
"""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING, Any

from linkqual.agent.iperf3 import port_is_free
from linkqual.agent.load import Session, opening
from linkqual.errors import HostError, PeerError
from linkqual.model import Direction, Json
from linkqual.wire import mtu as wire
from linkqual.wire import mtu_json

if TYPE_CHECKING:
    from linkqual.net.mtu import MtuEnd
    from linkqual.net.mtu_tcp import Listener

SECONDS = 60.0  # one search, at most


class Mtu:
    """Of one near end: one search at a time."""

    def __init__(self, session: Session, family: int) -> None:
        self._session, self._family = session, family
        self._end: MtuEnd | None = None
        self._tcp: Listener | None = None

    async def serve(self, verb: str, arguments: dict[str, Any]) -> dict[str, Json]:
        """Answer `mtu.<verb>`. PeerError when it is refused."""
        found: dict[str, Json] = await getattr(self, f"_{verb}")(**arguments)
        return found

    async def _open(self) -> dict[str, Json]:
        from linkqual.net.mtu import MtuEnd

        await self._close()
        token = secrets.token_bytes(wire.TOKEN_BYTES)
        session = self._session

        def start() -> None:
            try:
                end = MtuEnd(session.here, session.near, token, self._family, session.free_port())
            except OSError as error:
                raise HostError(
                    f"no socket for the path MTU: {error.strerror or error}", "see the agent's host"
                ) from None
            end.serve()
            self._end = end

        await opening(session.run, start)
        assert self._end is not None
        session.may_run("mtu", SECONDS)
        return {"port": self._end.port, "token": token.hex()}

    async def _search(self, *, port: int, longest: int, timeout_ns: int, pace_bps: int) -> dict[str, Json]:
        end, session = self._end, self._session
        if end is None:
            raise PeerError("this session has no search for the path MTU", "open one first", "state")
        session.bytes_left()

        def search() -> dict[str, Json]:
            end.rest()
            way = end.search(Direction.REVERSE, port, longest, timeout_ns=timeout_ns, pace_bps=pace_bps)
            end.serve()
            return mtu_json.encode(way)

        found: dict[str, Json] = await session.run(search)
        session.moved(sum(one["packet_bytes"] * one["sent"] for one in found["tried"]))
        return found

    async def _listen(self, *, data_bytes: int, pace_bps: int) -> dict[str, Json]:
        from linkqual.net.mtu_tcp import Listener

        session = self._session
        session.bytes_left()
        await self._end_tcp()
        low, high = session.config.iperf3_ports  # the TCP ports that firewalls let through

        def start() -> None:
            port = next(
                (one for one in range(low, high + 1) if port_is_free(session.here, one, socket.SOCK_STREAM)), None
            )
            if port is None:
                raise PeerError(
                    f"every TCP port of the agent ({low} to {high}) is taken", "end what listens there", "busy"
                )
            try:
                self._tcp = Listener(session.here, port, session.near, self._family, data_bytes, pace_bps)
            except OSError as error:
                raise HostError(f"no TCP port for the path MTU: {error.strerror or error}", "ask again") from None

        await session.run(start)
        assert self._tcp is not None
        session.may_run("mtu", SECONDS)
        return {"port": self._tcp.port}

    async def _heard(self, *, wait_ms: int) -> dict[str, Json]:
        if self._tcp is None:
            raise PeerError("nothing listens for the path MTU", "ask for it first", "state")
        side = await self._session.run(self._tcp.wait, wait_ms / 1000)
        await self._end_tcp()
        self._session.moved(2 * side.arrived_bytes)
        return {
            "mss_told": side.mss_told,
            "mss_heard": side.mss_heard,
            "arrived_bytes": side.arrived_bytes,
            "elapsed_ns": side.elapsed_ns,
            "connected": side.connected,
        }

    async def _end_tcp(self) -> None:
        tcp, self._tcp = self._tcp, None
        if tcp is not None:
            await self._session.run(tcp.close)

    async def _close(self) -> dict[str, Json]:
        await self.close_all()
        return {}

    def halt(self) -> None:
        """What runs in a thread returns soon."""
        for one in (self._end, self._tcp):
            if one is not None:
                one.halt()

    async def close_all(self) -> None:
        """End everything. Safe to call twice."""
        end, self._end = self._end, None
        if end is not None:
            await self._session.run(end.close)
        await self._end_tcp()
