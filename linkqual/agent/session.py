"""What one near end has at this agent: a reflector, iperf3 servers, traces. All of it ends with the session. Floor 5.

| request | answer |
| --- | --- |
| `host` | EndConditions of this host as an object (drop counters absolute, `drop_times` since the last such request), `boot_id`, `realtime_ahead_ns` (wall clock less monotonic), `iperf3` (its version or null) |
| `calibrate` | a model.HostFloor as an object: what this host adds by itself, measured now, before any probe; once a session |
| `iperf3.open` | `port` (to name it in the other one), `address`; one for each direction at most |
| `iperf3.close` | `exit_code`, `output` (packed text: its JSON), `error`, `killed` ("", "watchdog" or "cap"), `seconds` ([ns, octets read] of each, where it left no document) |
| `stamp.*` | see `agent.stamp` |
| `load.*` | see `agent.load` |
| `bursts.*` | see `agent.bursts` |
| `mtu.*` | see `agent.mtu` |
| `hops.*` | see `agent.hops` |
| `trace`, `trace.*` | see `agent.traces` |
| `bye` | nothing left here; the connection ends |

The near end's address is that of its control connection, never an argument. Whatever is over a cap is refused.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from linkqual.agent.bursts import Bursts
from linkqual.agent.config import AgentConfig
from linkqual.agent.hops import Hops
from linkqual.agent.iperf3 import GRACE_S, Iperf3Servers, port_is_free
from linkqual.agent.load import Loads
from linkqual.agent.load import Session as LoadSession
from linkqual.agent.mtu import Mtu
from linkqual.agent.stamp import Reflectors
from linkqual.agent.traces import Traces
from linkqual.errors import HostError, InputError, PeerError, WireError
from linkqual.model import Json
from linkqual.wire.control import Answer, Refusal, Request
from linkqual.wire.requests import checked

if TYPE_CHECKING:
    from linkqual.net.drops import Sampler

Result = TypeVar("Result")


class Session:
    """One near end. Requests come one after the other; `close` may come at any moment."""

    def __init__(
        self, config: AgentConfig, near: str, here: str, family: int, log: Callable[[str], None] = lambda _line: None
    ) -> None:
        self.id = secrets.token_hex(8)
        self.near, self.here = near, here
        self._config, self._family, self._log = config, family, log
        self._promised: dict[str, int] = {}  # bytes that what runs may still move, by its name
        self._iperf3 = Iperf3Servers(here, config.iperf3_ports)
        shared = self._shared()
        self._reflectors = Reflectors(shared)
        self._mtu = Mtu(shared, family)
        self._traces = Traces(shared, family)
        self._families: dict[str, Reflectors | Loads | Bursts | Mtu | Hops | Traces] = {
            "stamp": self._reflectors,
            "load": Loads(shared),
            "bursts": Bursts(shared),
            "mtu": self._mtu,
            "hops": Hops(shared, family, self._traces.close_all),
            "trace": self._traces,
        }  # requests that a module of their own serves, by the first part of their name
        self._drops: Sampler | None = None
        self._moved_bytes = 0
        self._until: dict[str, float] = {}  # what runs for it, and the loop time until which it may
        self._working: set[asyncio.Future[Json]] = set()
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
        self._mtu.halt()
        self._traces.halt()
        if self._working:
            await asyncio.wait(set(self._working))
        sampler, self._drops = self._drops, None
        ending: list[Awaitable[object]] = [self._iperf3.close_all()]
        ending += [self._run(sampler.close)] if sampler is not None else []
        ending += [family.close_all() for family in self._families.values()]
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

        if self._calibrated or self._reflectors.any:
            raise PeerError(
                "this session has measured its host already, or is measuring a line", "ask first and once", "state"
            )
        self._calibrated = True
        return asdict(await self._run(calibration.floor))

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
        self._may_run(f"iperf3 {port}", 0)
        self._moved_bytes += moved_bytes
        self._log(f"iperf3 closed, exit code {left['exit_code']}{', ' + left['killed'] if left['killed'] else ''}")
        return left

    def _shared(self) -> LoadSession:
        """What those modules need of this session."""

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
        "iperf3.open": _iperf3_open,
        "iperf3.close": _iperf3_close,
        "bye": _bye,
    }

    # ---- inside

    async def _run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Blocking work in a thread. When the caller is cancelled the work goes on, and `close` waits for it."""
        future = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
        self._working.add(future)
        future.add_done_callback(self._working.discard)
        return await asyncio.shield(future)

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
        """For so many seconds from now; 0: it has ended."""
        if seconds:
            self._until[what] = asyncio.get_running_loop().time() + seconds
        else:
            self._until.pop(what, None)
