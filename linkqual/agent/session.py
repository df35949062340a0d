"""What one near end has at this agent: a reflector, iperf3 servers, traces. All of it ends with the session. Floor 5.

| request | answer |
| --- | --- |
| `host` | EndConditions of this host as an object (drop counters absolute, `drop_times` since the last such request), `boot_id`, `realtime_ahead_ns` (wall clock less monotonic), `iperf3` (its version or null) |
| `calibrate` | a model.HostFloor as an object: what this host adds by itself, measured now, before any probe; once a session |
| `stamp.open` | `session` (to name it in the other three), `port`, `ssid`, `receive_buffer_bytes` as granted; `key` (32 octets, hexadecimal) of an authenticated one |
| `stamp.counters` | `counters`: name -> count |
| `stamp.arrived` | `arrived`: base64 of one bit a packet, little order: did it reach the reflector; refused (`forgotten`) for packets too long ago |
| `stamp.close` | `counters`, `stamps` and `drop_times`, as `Reflector.stop` gives them |
| `iperf3.open` | `port` (to name it in the other one), `address`; one for each direction at most |
| `iperf3.close` | `exit_code`, `output` (packed text: its JSON), `error`, `killed` ("", "watchdog" or "cap"), `seconds` ([ns, octets read] of each, where it left no document) |
| `load.*` | see `agent.load` |
| `bursts.*` | see `agent.bursts` |
| `mtu.*` | see `agent.mtu` |
| `hops.*` | see `agent.hops` |
| `trace` | a model.Trace as an object: from here to the near end's address, whoever asks |
| `trace.target` | `port`: a UDP port of the address the near end reached that answers its trace, for so many seconds (a minute, unless told) or until the next request about traces |
| `bye` | nothing left here; the connection ends |

The near end's address is that of its control connection, never an argument. Whatever is over a cap is refused.
"""

from __future__ import annotations

import asyncio
import functools
import math
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypeVar

from linkqual.agent.bursts import Bursts
from linkqual.agent.config import AgentConfig
from linkqual.agent.hops import Hops
from linkqual.agent.iperf3 import GRACE_S, Iperf3Servers, port_is_free
from linkqual.agent.load import Loads, opening
from linkqual.agent.load import Session as LoadSession
from linkqual.agent.mtu import Mtu
from linkqual.errors import HostError, InputError, PeerError, WireError
from linkqual.model import Json
from linkqual.wire.control import FORGOTTEN, Answer, Refusal, Request, bytes_text, checked

if TYPE_CHECKING:
    from linkqual.net.drops import Sampler
    from linkqual.net.reflector import Reflector
    from linkqual.net.trace import Target

Result = TypeVar("Result")
TARGET_S = 60  # whatever the cap
KEY_OCTETS = 32
MOST_REFLECTORS = 16  # at once: a stream beside each service of a line


class Session:
    """One near end. Requests come one after the other; `close` may come at any moment."""

    def __init__(
        self, config: AgentConfig, near: str, here: str, family: int, log: Callable[[str], None] = lambda _line: None
    ) -> None:
        self.id = secrets.token_hex(8)
        self.near, self.here = near, here
        self._config, self._family, self._log = config, family, log
        self._reflectors: dict[str, Reflector] = {}  # by the name the near end knows them under
        self._promised: dict[str, int] = {}  # bytes that what runs may still move, by its name
        self._iperf3 = Iperf3Servers(here, config.iperf3_ports)
        self._loads = Loads(self._for_loads())
        self._bursts = Bursts(self._for_loads())
        self._mtu = Mtu(self._for_loads(), family)
        self._hops = Hops(self._for_loads(), family, self._close_target)
        self._families: dict[str, Loads | Bursts | Mtu | Hops] = {  # requests that a module of their own serves
            "load": self._loads,
            "bursts": self._bursts,
            "mtu": self._mtu,
            "hops": self._hops,
        }
        self._target: Target | None = None
        self._drops: Sampler | None = None
        self._moved_bytes = 0
        self._until: dict[str, float] = {}  # what runs for it, and the loop time until which it may
        self._working: set[asyncio.Future[Json]] = set()
        self._closed = False
        self._calibrated = False

    @property
    def patience_s(self) -> float:
        """How long the near end may be silent from now on: longer while something runs for it."""
        now = asyncio.get_running_loop().time()
        return max([0.0, *(until - now for until in self._until.values())]) + self._config.idle_s

    async def answer(self, request: Request) -> Answer | Refusal:
        """Serve one request; whatever goes wrong is told, and never ends the agent."""
        try:
            arguments = checked(request)
            family, _, verb = request.name.partition(".")
            if family in self._families:
                return Answer(request.id, await self._families[family].serve(verb, arguments))
            serve = self._SERVED.get(request.name)
            if serve is None:
                raise PeerError(f"{request.name} is not for now", "greet once, then ask", "state")
            return Answer(request.id, await serve(self, **arguments))
        except PeerError as error:
            return Refusal(request.id, error.kind, error.message, error.hint)
        except WireError as error:
            return Refusal(request.id, "bad-request", error.message, error.hint)
        except (HostError, InputError) as error:
            kind = "no-capability" if isinstance(error, HostError) else "bad-request"
            return Refusal(request.id, kind, f"at the far end: {error.message}", error.hint)
        except Exception as error:  # a fault of ours must not take the agent down with it
            self._log(f"{request.name} failed: {type(error).__name__}: {error}")
            return Refusal(
                request.id, "failed", f"{request.name} failed at the far end: {type(error).__name__}: {error}",
                "what the agent wrote has more; please report it",
            )  # fmt: skip

    async def close(self) -> None:
        """End everything this near end had started. Safe to call twice."""
        self._closed = True
        self._mtu.halt()
        if self._working:
            await asyncio.wait(set(self._working))
        reflectors, self._reflectors = self._reflectors, {}
        sampler, self._drops = self._drops, None
        ending: list[Awaitable[object]] = [self._iperf3.close_all()]
        ending += [self._run(sampler.close)] if sampler is not None else []
        ending += [self._run(reflector.close) for reflector in reflectors.values()]
        ending += [self._close_target(), self._loads.close_all(), self._bursts.close_all(), self._mtu.close_all()]
        ending.append(self._hops.close_all())
        for outcome in await asyncio.gather(*ending, return_exceptions=True):
            if isinstance(outcome, BaseException):
                self._log(f"what was started does not end: {outcome}")

    # ---- the requests

    async def _host(self) -> dict[str, Json]:
        from linkqual.net import clock_state, drops, host

        def look() -> dict[str, Json]:
            sampler = self._drops = self._drops or drops.Sampler(self.near)
            sampler.look()
            latest, times = sampler.latest, sampler.times
            sampler.begin()
            return {
                **asdict(host.conditions(self.near)),
                "drops": latest,
                "drop_times": times,
                "boot_id": host.boot_id(),
                "realtime_ahead_ns": clock_state.realtime_ahead_ns(),
                "iperf3": host.iperf3_version(),
            }

        return await self._run(look)

    async def _calibrate(self) -> dict[str, Json]:
        from linkqual import calibration

        if self._calibrated or self._reflectors:
            raise PeerError(
                "this session has measured its host already, or is measuring a line", "ask first and once", "state"
            )
        self._calibrated = True
        return asdict(await self._run(calibration.floor))

    async def _stamp_open(
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

        if len(self._reflectors) >= MOST_REFLECTORS:
            raise PeerError(f"this session has {MOST_REFLECTORS} reflectors already", "close one first", "state")
        caps = self._config.caps
        caps.allow("max_pps", rate_pps, "packets a second")
        caps.allow("max_seconds", round(seconds), "seconds")
        most = math.ceil(rate_pps * seconds)
        expected = min(packets or most, most)  # what bounds the reflector's memory must follow from the caps
        most_packets = 2 * expected + 1000  # copies the line makes are answered too
        promised = min(self._bytes_left() // 2, most_packets * packet_bytes)  # as many go back
        session, ssid = secrets.token_hex(8), secrets.randbelow(0xFFFF) + 1
        key = secrets.token_hex(KEY_OCTETS) if authenticated else ""

        def start() -> None:
            config = ReflectorConfig(
                bind_address=self.here,
                peer_address=self.near,
                ssid=ssid,
                port=self._free_reflector_port(),
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
            self._reflectors[session] = Reflector.start(config)
            self._promised[f"reflector {session}"] = 2 * promised

        await opening(self._run, start)
        self._may_run(f"reflector {session}", seconds)
        port, buffer = self._opened(session).port, self._opened(session).receive_buffer_bytes
        self._log(f"reflector on UDP port {port}: at most {rate_pps:,} packets/s of {packet_bytes} B, {seconds:.0f} s")
        opened = {"session": session, "port": port, "ssid": ssid, "receive_buffer_bytes": buffer}
        return opened | {"key": key} if authenticated else opened

    async def _stamp_counters(self, session: str) -> dict[str, Json]:
        return {"counters": await self._run(self._opened(session).counters)}

    async def _stamp_arrived(self, session: str, first: int, count: int) -> dict[str, Json]:
        try:
            bitmap = await self._run(self._opened(session).arrived, first, count)
        except InputError as error:
            raise PeerError(error.message, error.hint, FORGOTTEN) from error
        return {"arrived": bytes_text(bitmap)}

    async def _stamp_close(self, session: str) -> dict[str, Json]:
        reflector = self._opened(session)
        del self._reflectors[session], self._promised[f"reflector {session}"]
        self._until.pop(f"reflector {session}", None)
        self._log("reflector closed")
        final: dict[str, Json] = await self._run(reflector.stop)
        self._moved_bytes += 2 * int(final["counters"]["received_bytes"])
        return final

    async def _iperf3_open(self, seconds: float, streams: int, congestion_control: str) -> dict[str, Json]:
        caps = self._config.caps
        caps.allow("max_seconds", round(seconds), "seconds")
        self._bytes_left()
        port = await self._iperf3.open(round(seconds), lambda: self._spent > caps.max_bytes, congestion_control)
        self._may_run(f"iperf3 {port}", seconds + GRACE_S)
        self._log(f"iperf3 on TCP port {port}: {streams} streams, {seconds:g} s")
        return {"port": port, "address": self.here}

    async def _iperf3_close(self, port: int | None, wait_ms: int) -> dict[str, Json]:
        port, left, moved_bytes = await self._iperf3.close(port, wait_ms / 1000)
        self._until.pop(f"iperf3 {port}", None)
        self._moved_bytes += moved_bytes
        self._log(f"iperf3 closed, exit code {left['exit_code']}{', ' + left['killed'] if left['killed'] else ''}")
        return left

    async def _trace(
        self, source_port: int, destination_port: int, max_hops: int, rounds: int, tos: int
    ) -> dict[str, Json]:
        from linkqual.net.trace import trace

        await self._close_target()  # it holds the port the trace is to come from
        follow = functools.partial(
            trace,
            self.near,
            source_port=source_port,
            destination_port=destination_port,
            family=self._family,
            source=self.here,
            max_hops=max_hops,
            rounds=rounds,
            tos=tos,
            interrupted=lambda: self._closed,
        )
        return asdict(await self._run(follow))

    async def _trace_target(self, port: int | None, seconds: int) -> dict[str, Json]:
        from linkqual.net.trace import DEFAULT_PORT, Target

        if seconds > TARGET_S:
            self._config.caps.allow("max_seconds", seconds, "seconds")
        await self._close_target()
        for candidate in [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + 100):
            target = Target(self.here, candidate, self.near, self._family, seconds=seconds)
            if target.error is None:
                self._target = target
                return {"port": target.port}
        raise PeerError("that UDP port is in use at the far end", "ask for another", "busy")

    async def _close_target(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            await self._run(target.close)

    def _for_loads(self) -> LoadSession:
        def moved(count: int) -> None:
            self._moved_bytes += count

        return LoadSession(
            config=self._config,
            near=self.near,
            here=self.here,
            run=self._run,
            free_port=self._free_reflector_port,
            bytes_left=self._bytes_left,
            moved=moved,
            promised=self._promised,
            may_run=self._may_run,
            log=self._log,
        )

    async def _bye(self) -> dict[str, Json]:
        await self.close()
        return {}

    _SERVED: dict[str, Callable[..., Awaitable[dict[str, Json]]]] = {  # noqa: RUF012  a table of methods
        "host": _host,
        "calibrate": _calibrate,
        "stamp.open": _stamp_open,
        "stamp.counters": _stamp_counters,
        "stamp.arrived": _stamp_arrived,
        "stamp.close": _stamp_close,
        "iperf3.open": _iperf3_open,
        "iperf3.close": _iperf3_close,
        "trace": _trace,
        "trace.target": _trace_target,
        "bye": _bye,
    }

    # ---- inside

    async def _run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Blocking work in a thread. When the caller is cancelled the work goes on, and `close` waits for it."""
        future = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
        self._working.add(future)
        future.add_done_callback(self._working.discard)
        return await asyncio.shield(future)

    def _opened(self, session: str) -> Reflector:
        if session not in self._reflectors:
            raise PeerError("this session has no such reflector", "open one first", "state")
        return self._reflectors[session]

    @property
    def _spent(self) -> int:
        """Bytes that moved, and those promised to what runs."""
        return self._moved_bytes + self._iperf3.moved_bytes + sum(self._promised.values())

    def _bytes_left(self) -> int:
        """What may still be promised, of probes, loads and iperf3 tests together. PeerError when that is nothing."""
        self._config.caps.allow("max_bytes", self._spent + 1, "bytes in this session")
        return self._config.caps.max_bytes - self._spent

    def _free_reflector_port(self) -> int:
        low, high = self._config.reflector_ports
        for port in range(low, high + 1):
            if port_is_free(self.here, port, socket.SOCK_DGRAM):
                return port
        raise PeerError(
            f"every reflector port of the agent ({low} to {high}) is taken",
            "end what listens there, or start the agent with other --reflector-ports",
            "busy",
        )

    def _may_run(self, what: str, seconds: float) -> None:
        self._until[what] = asyncio.get_running_loop().time() + seconds
