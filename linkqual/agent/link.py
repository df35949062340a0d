"""One TLS connection at the agent, in frames; and the sockets that wait for them. Floor 5."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl

from linkqual.errors import HostError, WireError
from linkqual.net.addresses import numeric
from linkqual.wire.control import LENGTH_OCTETS, Message, Request, decode, encode, frame_length

BACKLOG = 128
CLOSE_S = 1.0  # for a connection to end politely
CONTENDED_S = 5  # a silent holder is given up after this, once somebody else asks


class Link:
    """Frames over TLS. `near` and `here` are the addresses of the two ends, numeric."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost_s: float) -> None:
        self._reader, self._writer, self._lost_s = reader, writer, lost_s
        self._socket: socket.socket = writer.get_extra_info("socket")
        self.family = int(self._socket.family)
        self.near = numeric(writer.get_extra_info("peername"))
        self.here = numeric(writer.get_extra_info("sockname"))
        self._expect_life(lost_s)

    @classmethod
    async def open(cls, connection: socket.socket, context: ssl.SSLContext, hello_s: float, lost_s: float) -> Link:
        """Shake hands on an accepted connection and take it over. OSError (ssl.SSLError among them) when that fails."""
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=context,
            ssl_handshake_timeout=hello_s,
            ssl_shutdown_timeout=CLOSE_S,
        )
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), lost_s)

    async def request(self, limit: int) -> Request:
        """The next request. EOFError when the near end hung up, OSError when it vanished, WireError when it sent no request."""
        length = frame_length(await self._reader.readexactly(LENGTH_OCTETS), limit)
        message = decode(await self._reader.readexactly(length))
        if not isinstance(message, Request):
            raise WireError("only the near end asks, and it sent no request")
        return message

    async def send(self, message: Message) -> None:
        """Hand a message over; TimeoutError when the near end does not take it."""
        self._writer.write(encode(message))
        async with asyncio.timeout(self._lost_s):
            await self._writer.drain()

    def somebody_waits(self) -> None:
        """Look sooner whether the other host still lives; a living one notices nothing of it."""
        self._expect_life(min(self._lost_s, CONTENDED_S))

    async def close(self) -> None:
        """Hang up, politely for a second."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._writer.wait_closed()
        self._writer.transport.abort()

    def _expect_life(self, seconds: float) -> None:
        """Let the kernel ask the other host for a sign of life, and end the connection after `seconds` without one."""
        probe_s = max(1, round(seconds / 4))
        options = {"TCP_NODELAY": 1, "TCP_KEEPIDLE": probe_s, "TCP_KEEPINTVL": probe_s, "TCP_KEEPCNT": 3}
        options["TCP_USER_TIMEOUT"] = round(seconds * 1000)  # the same for data not acknowledged (RFC 5482)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in options.items():
                if hasattr(socket, name):
                    self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def listen(address: str, port: int) -> list[socket.socket]:
    """Listening sockets: one, or with "" one for IPv4 and one for IPv6, on the same port. HostError when it cannot be had."""
    hosts = [address] if address else ["0.0.0.0", "::"]  # noqa: S104  every address is what was asked for
    found: list[socket.socket] = []
    try:
        for host in hosts:
            try:
                one = _listen(host, found[0].getsockname()[1] if found else port)
            except OSError as error:
                if not found or error.errno == errno.EADDRINUSE:  # else: a host without IPv6
                    raise
            else:
                found.append(one)
    except OSError as error:
        for one in found:
            one.close()
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else error.strerror
        raise HostError(
            f"cannot listen on {address or 'any address'}, TCP port {port}: {reason}",
            "is an agent running already? Choose another --port or --bind",
        ) from None
    return found


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.setblocking(False)
        one.bind(target)
        one.listen(BACKLOG)
    except BaseException:
        one.close()
        raise
    return one


def own_address() -> str:
    """The address this host would speak from, for the pairing line; a connected UDP socket sends nothing."""
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    return socket.gethostname()
