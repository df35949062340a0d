"""STAMP reflectors at the agent: one process each, for one near end, within the caps. Floor 5.

| request | answer |
| --- | --- |
| `stamp.open` | `session` (to name it in the other three), `port`, `ssid`, `receive_buffer_bytes` as granted; `key` (32 octets, hexadecimal) of an authenticated one |
| `stamp.counters` | `counters`: name -> count |
| `stamp.arrived` | `arrived`: base64 of one bit a packet, little order: did it reach the reflector; refused (`forgotten`) for packets too long ago |
| `stamp.close` | `counters`, `stamps` and `drop_times`, as `Reflector.stop` gives them |
"""

from __future__ import annotations

import asyncio
import math
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkqual.agent.load import Session, opening
from linkqual.errors import InputError, PeerError
from linkqual.model import Json
from linkqual.wire.control import FORGOTTEN, bytes_text

if TYPE_CHECKING:
    from linkqual.net.reflector import Reflector

KEY_OCTETS = 32
MOST = 16  # at once: a stream beside each service of a line


class Reflectors:
    """All reflectors of one near end."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open_ones: dict[str, Reflector] = {}  # by the name the near end knows them under

    @property
    def any(self) -> bool:
        """Whether one is open."""
        return bool(self._open_ones)

    async def serve(self, verb: str, arguments: dict[str, Any]) -> dict[str, Json]:
        """Answer `stamp.<verb>`. PeerError when it is refused."""
        found: dict[str, Json] = await getattr(self, f"_{verb}")(**arguments)
        return found

    async def _open(
        self,
        *,
        rate_pps: int,
        packet_bytes: int,
        seconds: float,
        packets: int | None,
        receive_buffer_bytes: int | None,
        authenticated: bool,
        stateless: bool,
        timestamps: str,
        reply_ecn: int | None,
    ) -> dict[str, Json]:
        from linkqual.net import clock_state
        from linkqual.net.reflector import Reflector, ReflectorConfig, of_clock

        session = self._session
        if len(self._open_ones) >= MOST:
            raise PeerError(f"this session has {MOST} reflectors already", "close one first", "state")
        caps = session.config.caps
        caps.allow("max_pps", rate_pps, "packets a second")
        caps.allow("max_seconds", round(seconds), "seconds")
        most = math.ceil(rate_pps * seconds)
        expected = min(packets or most, most)  # what bounds the reflector's memory must follow from the caps
        most_packets = 2 * expected + 1000  # copies the line makes are answered too
        promised = min(session.bytes_left() // 2, most_packets * packet_bytes)  # as many go back
        name, ssid = secrets.token_hex(8), secrets.randbelow(0xFFFF) + 1
        key = secrets.token_hex(KEY_OCTETS) if authenticated else ""

        def start() -> None:
            config = ReflectorConfig(
                bind_address=session.here,
                peer_address=session.near,
                ssid=ssid,
                port=session.free_port(),
                max_pps=caps.max_pps,  # not what was asked: a sender catching up after a stall must not lose packets here
                max_seconds=math.ceil(seconds),
                max_packets=most_packets,
                max_bytes=promised,
                longest_packet=packet_bytes,
                key=key,
                stateless=stateless,
                form=timestamps,
                reply_ecn=reply_ecn,
                **of_clock(clock_state.clock_state()),
            )
            if receive_buffer_bytes is not None:
                config = replace(config, receive_buffer_bytes=receive_buffer_bytes)
            self._open_ones[name] = Reflector.start(config)
            session.promised[f"reflector {name}"] = 2 * promised

        await opening(session.run, start)
        session.may_run(f"reflector {name}", seconds)
        reflector = self._opened(name)
        port, buffer = reflector.port, reflector.receive_buffer_bytes
        session.log(
            f"reflector on UDP port {port}: at most {rate_pps:,} packets/s of {packet_bytes} B, {seconds:.0f} s"
        )
        opened = {"session": name, "port": port, "ssid": ssid, "receive_buffer_bytes": buffer}
        return opened | {"key": key} if authenticated else opened

    async def _counters(self, *, session: str) -> dict[str, Json]:
        return {"counters": await self._session.run(self._opened(session).counters)}

    async def _arrived(self, *, session: str, first: int, count: int) -> dict[str, Json]:
        try:
            bitmap = await self._session.run(self._opened(session).arrived, first, count)
        except InputError as error:
            raise PeerError(error.message, error.hint, FORGOTTEN) from error
        return {"arrived": bytes_text(bitmap)}

    async def _close(self, *, session: str) -> dict[str, Json]:
        reflector = self._opened(session)
        del self._open_ones[session], self._session.promised[f"reflector {session}"]
        self._session.may_run(f"reflector {session}", 0)
        self._session.log("reflector closed")
        final: dict[str, Json] = await self._session.run(reflector.stop)
        self._session.moved(2 * int(final["counters"]["received_bytes"]))
        return final

    async def close_all(self) -> None:
        """End them all. Safe to call twice. Raises what the first that does not end says, after all were told to."""
        there, self._open_ones = self._open_ones, {}
        ending = [self._session.run(reflector.close) for reflector in there.values()]
        for outcome in await asyncio.gather(*ending, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _opened(self, name: str) -> Reflector:
        if name not in self._open_ones:
            raise PeerError("this session has no such reflector", "open one first", "state")
        return self._open_ones[name]
