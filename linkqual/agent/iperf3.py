"""iperf3 servers for one test each: a port of its own, a watchdog, a cap on their bytes; they die with the session. Floor 5."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from linkqual.errors import PeerError
from linkqual.model import Json
from linkqual.net.child import MAX_OUTPUT, bound, environment, install_hint, kill_group
from linkqual.net.host import check_congestion_control
from linkqual.net.reads import Reads, moved
from linkqual.wire.control import packed_text

LISTEN_S = 5.0  # until a started server must listen
GRACE_S = 20.0  # beyond the test's seconds: the connection before, the exchange of results after
TICK_S = 0.1
AT_ONCE = 2  # servers of a session: one for each direction


class Iperf3Server:
    """One server process. `start` gives it listening; `close` ends it and gives what it wrote."""

    def __init__(
        self, process: asyncio.subprocess.Process, port: int, seconds: int, over_cap: Callable[[], bool]
    ) -> None:
        """`over_cap`: whether the servers of the session have moved too much."""
        self.port = port
        self.moved_bytes = 0  # as far as known: the watchdog counts what the process read and wrote
        self.killed = ""  # "watchdog" or "cap", when the agent had to
        self._reads = Reads()
        self._process = process
        self._outputs = [asyncio.ensure_future(_drain(stream)) for stream in (process.stdout, process.stderr)]
        self._watchdog = asyncio.ensure_future(self._watch(seconds + GRACE_S, over_cap))

    @classmethod
    async def start(
        cls, address: str, ports: tuple[int, int], seconds: int, over_cap: Callable[[], bool]
    ) -> Iperf3Server:
        """A server listening on `address`. PeerError: missing-program, busy (every port taken) or failed."""
        program = shutil.which("iperf3")
        if program is None:
            raise PeerError("iperf3 is not installed at the far end", install_hint("iperf3"), "missing-program")
        said = ""
        for port in _free_ports(address, ports):
            command = [program, "-s", "-1", "-J", "-i", "1", "-p", str(port), "-B", address]
            process = await asyncio.create_subprocess_exec(
                *bound(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment(),
                start_new_session=True,
            )
            server = cls(process, port, seconds, over_cap)
            try:
                if await server._listens():
                    return server
            except BaseException:
                await server.close(0)
                raise
            ended = await server.close(0)
            said = str(ended["error"]) or f"exit code {ended['exit_code']}"
        if said:
            raise PeerError(
                f"iperf3 does not start at the far end: {said}", "try it there by hand: iperf3 -s", "failed"
            )
        raise PeerError(
            f"every iperf3 port of the agent ({ports[0]} to {ports[1]}) is taken",
            "end what listens there, or start the agent with other --iperf3-ports",
            "busy",
        )

    async def close(self, wait_s: float) -> dict[str, Json]:
        """Give it `wait_s` to end by itself, then end it. What it left: exit_code, output (packed), error, killed, seconds.

        `seconds` of one that somebody killed, and that wrote nothing therefore: (ns, octets read) of each, as the kernel counted them.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._process.wait()
        kill_group(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._watchdog.cancel()
        output, errors = await asyncio.gather(*self._outputs)
        return {
            "exit_code": self._process.returncode,
            "output": packed_text(output),
            "error": errors.strip()[-500:],
            "killed": self.killed,
            "seconds": [] if output.strip() else self._reads.seconds,
        }

    async def _listens(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_S):
                while self._process.returncode is None:
                    if _listening(self._process.pid, self.port):
                        return True
                    await asyncio.sleep(0.01)
        return False

    async def _watch(self, seconds: float, over_cap: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._process.returncode is None:
            read, written = moved(self._process.pid)
            self.moved_bytes = max(self.moved_bytes, read + written)
            self._reads.saw(time.monotonic_ns(), read)
            if loop.time() > deadline or over_cap():
                self.killed = "watchdog" if loop.time() > deadline else "cap"
                kill_group(self._process.pid, signal.SIGKILL)
                return
            await asyncio.sleep(TICK_S)


class Iperf3Servers:
    """Those of one session, by their port."""

    def __init__(self, address: str, ports: tuple[int, int]) -> None:
        self._address, self._ports = address, ports
        self._servers: dict[int, Iperf3Server] = {}

    @property
    def moved_bytes(self) -> int:
        """By those that are open, as far as known."""
        return sum(one.moved_bytes for one in self._servers.values())

    async def open(self, seconds: int, over_cap: Callable[[], bool], congestion_control: str = "") -> int:
        """The port of a new one. PeerError: as `Iperf3Server.start`, or state (too many); HostError: the kernel lacks that congestion control.

        `over_cap`: whether the session has moved too much; `congestion_control`: what it is to send with, if it is to send.
        """
        if len(self._servers) >= AT_ONCE:
            raise PeerError(f"this session has {AT_ONCE} iperf3 servers already", "close one first", "state")
        if congestion_control:
            check_congestion_control(congestion_control)
        server = await Iperf3Server.start(self._address, self._ports, seconds, over_cap)
        self._servers[server.port] = server
        return server.port

    async def close(self, port: int | None, wait_s: float) -> tuple[int, dict[str, Json], int]:
        """Its port, what it left (`Iperf3Server.close`) and the bytes it moved; None: the one there is."""
        if port is None and len(self._servers) == 1:
            port = next(iter(self._servers))
        server = self._servers.pop(port, None) if port is not None else None
        if server is None:
            raise PeerError("this session has no such iperf3 server", "open one first", "state")
        return server.port, await server.close(wait_s), server.moved_bytes

    async def close_all(self) -> None:
        """End all of them at once."""
        servers, self._servers = list(self._servers.values()), {}
        await asyncio.gather(*(one.close(0) for one in servers))


async def _drain(stream: asyncio.StreamReader | None) -> str:
    """Everything it writes, read all the time so that it never blocks; what is over MAX_OUTPUT is dropped."""
    kept = bytearray()
    while stream is not None and (data := await stream.read(65536)):
        kept += data[: max(0, MAX_OUTPUT - len(kept))]
    return kept.decode("utf-8", "replace")


def _free_ports(address: str, ports: tuple[int, int]) -> Iterator[int]:
    """Ports of the range that nobody holds at this moment; whoever takes one in between makes the server fail."""
    for port in range(ports[0], ports[1] + 1):
        if port_is_free(address, port, socket.SOCK_STREAM):
            yield port


def port_is_free(address: str, port: int, kind: socket.SocketKind) -> bool:
    """Whether a socket of this kind could be bound there now."""
    try:
        family, _, _, _, target = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_NUMERICHOST)[0]
        with socket.socket(family, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as iperf3 does: TIME_WAIT is no holder
            probe.bind(target)
    except OSError:
        return False
    return True


def _listening(pid: int, port: int) -> bool:
    """Whether this process listens on the TCP port (to connect would use up the one test; another's server may stand there, and it is about to fail)."""
    entry = re.compile(rf"^\s*\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:0000 0A (?:\S+ +){{5}}(\d+)", re.MULTILINE)
    with contextlib.suppress(OSError):
        own = {os.readlink(held) for held in Path(f"/proc/{pid}/fd").iterdir()}
        for table in ("tcp", "tcp6"):
            text = Path("/proc/self/net", table).read_text()
            if any(f"socket:[{inode}]" in own for inode in entry.findall(text)):
                return True
    return False
