"""The agent: listens, recognises near ends, serves one at a time, and outlives whatever they do. Floor 5.

Until a caller has proven the token it may hold a connection for `hello_s` seconds and send one small frame. Such connections
are capped in number, altogether and for each address; beyond that the one that has waited longest is dropped, not the newest,
so that idle connections keep nobody out. Everything a session started ends with its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from linkqual import __version__
from linkqual.agent.config import AgentConfig
from linkqual.agent.identity import Identity, load_or_make, make
from linkqual.agent.link import Link, listen, own_address
from linkqual.agent.session import Session
from linkqual.errors import WireError
from linkqual.net.addresses import numeric
from linkqual.wire.control import MAX_HELLO, PROTOCOLS, Answer, Refusal, Request
from linkqual.wire.pairing import Peer, checked_token, join_host_port, proof, same
from linkqual.wire.requests import checked

ENVIRONMENT_TOKEN = "LINKQUAL_TOKEN"  # noqa: S105  a name, not a secret
CLOSING_S = 15.0  # for the former session to be gone, before a new one is told "busy"
QUEUE = 4  # requests read ahead
MAX_REQUEST = 65536

Log = Callable[[str], None]
Ready = Callable[[Peer], None]


def _silent(_said: object) -> None:
    pass


def run(config: AgentConfig, log: Log = _silent, ready: Ready = _silent) -> None:
    """Serve until SIGINT or SIGTERM; then end every session and return. For the command line; main thread only.

    `ready` gets the far end as a near end must name it (`Peer.line` is the pairing line) once connections are accepted;
    `log` gets one line for each thing that happens. HostError when no address can be bound or no certificate kept.
    """

    async def until_told() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await serve(config, log, ready, stop)

    asyncio.run(until_told())


async def serve(
    config: AgentConfig, log: Log = _silent, ready: Ready = _silent, stop: asyncio.Event | None = None
) -> None:
    """Serve until `stop` is set or the task is cancelled. Leaves no process, socket or task behind."""
    identity = make() if config.ephemeral else load_or_make(config.home())
    token = checked_token(config.token or os.environ.get(ENVIRONMENT_TOKEN) or secrets.token_urlsafe(18))
    sockets = listen(config.bind_address, config.port)
    agent = _Agent(config, identity, token, log)
    try:
        port: int = sockets[0].getsockname()[1]
        ready(Peer(config.name or config.bind_address or own_address(), port, token, identity.pin))
        log(f"serving on {', '.join(join_host_port(*one.getsockname()[:2]) for one in sockets)}")
        await agent.accept(sockets, stop or asyncio.Event())
    finally:
        for one in sockets:
            one.close()
        await agent.end()
        log("ended")


@dataclass(eq=False, slots=True)
class _Guest:
    """A near end being served."""

    session: Session
    link: Link
    since: str
    leaving: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class _Agent:
    def __init__(self, config: AgentConfig, identity: Identity, token: str, log: Log) -> None:
        self._config, self._token, self._log = config, token, log
        self._pin, self._context = identity.pin, identity.context()
        self._guests: list[_Guest] = []
        self._waiting: dict[asyncio.Task[None], str] = {}  # those not yet recognised, and where from; oldest first
        self._tasks: set[asyncio.Task[None]] = set()
        self._dropped = 0

    async def accept(self, sockets: list[socket.socket], stop: asyncio.Event) -> None:
        """Take connections until `stop` is set; an error of ours ends the agent, rather than leave it deaf."""
        accepting = [asyncio.create_task(self._accept(one)) for one in sockets]
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait((stopping, *accepting), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for each in (stopping, *accepting):
                each.cancel()
            await asyncio.gather(stopping, *accepting, return_exceptions=True)

    async def end(self) -> None:
        """Hang up on everybody and wait until everything started for them is gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, address = await asyncio.get_running_loop().sock_accept(listening)
                host = numeric(address)
            except OSError:  # out of descriptors, or gone, perhaps with its interface, before it was accepted
                await asyncio.sleep(0.1)
                continue
            self._make_room(host)
            task = asyncio.create_task(self._attend(connection, host))
            self._waiting[task] = host
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._waiting.pop(task, None)

    def _make_room(self, host: str) -> None:
        """Drop the longest waiting: of this address where it has too many, else of the one that has most."""
        counts = Counter(self._waiting.values())
        if counts[host] < self._config.max_waiting_each:
            if counts.total() < self._config.max_waiting:
                return
            host = counts.most_common(1)[0][0]
        oldest = next(task for task, its_host in self._waiting.items() if its_host == host)
        del self._waiting[oldest]
        oldest.cancel()
        if self._dropped == 0:  # tell of a flood in two lines, not in one for each connection
            self._log(f"{host}: too many connections not yet recognised, dropping the oldest")
            asyncio.get_running_loop().call_later(10.0, self._tell_dropped)
        self._dropped += 1

    def _tell_dropped(self) -> None:
        self._log(f"{self._dropped} connections not yet recognised dropped in 10 s")
        self._dropped = 0

    async def _attend(self, connection: socket.socket, host: str) -> None:
        """From the connection to its end. Whatever the other side does stays in here."""
        try:
            link, hello = await self._recognised(connection)
        except TimeoutError:
            self._log(f"{host}: no greeting within {self._config.hello_s:g} s")
        except WireError as error:
            self._log(f"{host}: no near end: {error.message}")
        except (OSError, EOFError) as error:
            self._log(f"{host}: no near end: {_reason(error)}")
        else:
            try:
                if hello is not None:
                    self._waiting.pop(_this_task(), None)
                    await self._admit(link, hello)
            finally:
                await link.close()

    async def _recognised(self, connection: socket.socket) -> tuple[Link, Request | None]:
        """The connection with its greeting; None in its place when it was refused."""
        config = self._config
        async with asyncio.timeout(config.hello_s):
            link = await Link.open(connection, self._context, config.hello_s, config.lost_s)
        try:
            async with asyncio.timeout(config.hello_s):
                hello = await link.request(MAX_HELLO)
            refusal = self._refusal(hello)
            if refusal is not None:
                await asyncio.sleep(config.refusal_s)
                self._log(f"{link.near}: refused, {refusal.message}")
                await link.send(refusal)
                return link, None
        except BaseException:
            await link.close()
            raise
        return link, hello

    def _refusal(self, hello: Request) -> Refusal | None:
        if hello.name != "hello":
            raise WireError("the first request must be hello")
        said = checked(hello)
        if not same(said["proof"], proof(self._token, "near", self._pin, said["nonce"])):
            hint = "paste the pairing line the agent printed when it started"
            return Refusal(hello.id, "token", "the agent does not accept this token", hint)
        if not set(PROTOCOLS) & set(said["protocols"]):
            ours, theirs = (", ".join(map(str, sorted(one))) for one in (PROTOCOLS, said["protocols"]))
            return Refusal(
                hello.id,
                "version",
                f"the agent is linkqual {__version__} and speaks protocol {ours}; "
                f"this end is {said['version']} and speaks {theirs or 'none'}",
                "install the same version at both ends",
            )
        return None

    async def _admit(self, link: Link, hello: Request) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                while self._full() and (leaving := [guest for guest in self._guests if guest.leaving]):
                    await leaving[0].gone.wait()
        if self._full():
            await self._refuse_busy(link, hello)
            return
        guest = _Guest(Session(self._config, link.near, link.here, link.family, self._log), link, _now())
        self._guests.append(guest)
        self._log(f"{link.near}: session {guest.session.id} begins")
        why = "the agent ends"
        try:
            why = await self._converse(guest, self._greeting(guest, hello))
        finally:
            guest.leaving = True
            try:
                await _to_the_end(guest.session.close())
            finally:
                self._guests.remove(guest)
                guest.gone.set()
            self._log(f"{link.near}: session {guest.session.id} ended: {why}")

    def _full(self) -> bool:
        return len(self._guests) >= self._config.caps.max_sessions

    async def _refuse_busy(self, link: Link, hello: Request) -> None:
        holder = self._guests[0]
        holder.link.somebody_waits()
        self._log(f"{link.near}: refused, busy with {holder.link.near}")
        message = f"the agent is busy: in use by {holder.link.near} since {holder.since}"
        hint = "wait for that run to end; if it was yours and broke off, try again in ten seconds"
        with contextlib.suppress(OSError):
            await link.send(Refusal(hello.id, "busy", message, hint))

    def _greeting(self, guest: _Guest, hello: Request) -> Answer:
        said = hello.args
        return Answer(
            hello.id,
            {
                "protocol": max(set(PROTOCOLS) & set(said["protocols"])),
                "version": __version__,
                "proof": proof(self._token, "far", self._pin, said["nonce"]),
                "session": guest.session.id,
                "host": socket.gethostname(),
                "near_address": guest.link.near,
                "caps": asdict(self._config.caps),
            },
        )

    async def _converse(self, guest: _Guest, greeting: Answer) -> str:
        """Answer requests until one side has had enough; returns why that is."""
        requests: asyncio.Queue[Request] = asyncio.Queue(QUEUE)
        reading = asyncio.create_task(_read(guest.link, requests))
        serving = asyncio.create_task(_serve(guest, greeting, requests))
        try:
            await asyncio.wait((reading, serving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, serving):
                task.cancel()
            outcomes = await asyncio.gather(serving, reading, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, str):
                return outcome
            if isinstance(outcome, Exception):
                return "the near end hung up" if isinstance(outcome, EOFError) else _reason(outcome)
        return "the agent ends"


async def _read(link: Link, requests: asyncio.Queue[Request]) -> None:
    while True:
        await requests.put(await link.request(MAX_REQUEST))


async def _serve(guest: _Guest, greeting: Answer, requests: asyncio.Queue[Request]) -> str:
    await guest.link.send(greeting)
    while True:
        patience = guest.session.patience_s
        try:
            async with asyncio.timeout(patience):
                request = await requests.get()
        except TimeoutError:
            return f"nothing asked for {patience:.0f} s"
        answer = await guest.session.answer(request)
        try:
            await guest.link.send(answer)
        except WireError as error:  # an answer longer than a frame may be
            await guest.link.send(Refusal(request.id, "failed", error.message, "ask for less"))
        if request.name == "bye":
            return "goodbye"


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _to_the_end(work: Coroutine[None, None, None]) -> None:
    """Finish it even when we are cancelled meanwhile: a reflector half stopped would be left behind."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no TLS 1.3 ({(error.reason or 'broken').lower().replace('_', ' ')})"
    if isinstance(error, EOFError):
        return "it hung up"
    if isinstance(error, WireError):
        return error.message
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
