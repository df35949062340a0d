"""The near end of the control channel: a blocking TLS connection to an agent, one request at a time, whoever asks. Floor 3.

TLS 1.3 only. Before anything else the agent's certificate is compared with the pin, where one is known; then both ends prove
that they know the token (`wire.pairing.proof`), so that neither a wrong agent nor somebody in the middle is ever believed.
Whatever goes wrong is one PeerError whose `kind` is that of the Fault it makes:

    unreachable   no answer, no route, no such name          token        the agent refuses our token, or does not know it
    refused       nobody listens on the port                 certificate  another certificate than the pinned one
    not-an-agent  something answers, but no agent            version      no protocol version in common
    busy          the agent serves somebody else             peer-lost    the far end closed the connection
    silent        an answer is overdue: the line is cut, or the far host gone without a word
and, while connected, the agent's own refusals: cap, missing-program, no-capability, state, bad-request, failed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import secrets
import socket
import ssl
import termios
import threading
import time
from collections.abc import Callable
from types import TracebackType

from linkqual import __version__
from linkqual.errors import AFTER_LOSS, PeerError, WireError
from linkqual.model import Json
from linkqual.net.addresses import bare, numeric
from linkqual.wire.control import (
    LENGTH_OCTETS,
    PROTOCOLS,
    Answer,
    Message,
    Refusal,
    Request,
    decode,
    encode,
    frame_length,
)
from linkqual.wire.pairing import Peer, proof, same

__all__ = ["Control", "Peer"]

CALL_TIMEOUT_S = 15.0
QUIET_S = 3.0  # in which the far kernel must have a request: a cut line is told within five seconds
GOODBYE_S = 1.0
_GLANCE_S = 0.5
TIMEOUTS_S = {
    "trace": 180.0,
    "mtu.search": 60.0,
    "calibrate": 60.0,
    "stamp.open": 30.0,
    "stamp.close": 30.0,
    "load.open": 30.0,
    "bursts.open": 30.0,
}  # requests that may take longer than the rest
SEGMENT_BYTES = (
    1200  # of TCP payload, both ways: a path MTU down to 1280 that nobody tells of cannot cut off the control channel
)
_SILENCE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)  # the kernel gave up waiting, nobody hung up
_START = "start it there with `linkqual agent`"
_FIREWALL = "check the address, and that firewalls let TCP and UDP through; the agent must be running there"
_PAIR = "paste the pairing line the agent printed when it started"


class Control:
    """One session with an agent; use it in a `with` statement or call `close`.

    Several threads may call: a request waits until the one before is answered. The lock is one that its own thread may take
    again, since an interrupt may call `close` in the middle of a request.
    """

    def __init__(self, peer: Peer, connection: ssl.SSLSocket) -> None:
        self.peer = peer
        self.hello: dict[str, Json] = {}  # the agent's greeting: protocol, version, host, session, near_address, caps
        self.family = connection.family
        self.near_address = numeric(connection.getsockname())
        self.peer_address = numeric(connection.getpeername())
        self._socket: ssl.SSLSocket | None = connection
        self._received = bytearray()
        self._next = 0
        self._lost = ""  # how the connection ended
        self._asking = threading.RLock()

    @property
    def seen_as(self) -> str:
        """The address the agent sees us under, where it is not our own: something on the way translates addresses. "" otherwise."""
        seen = str(self.hello.get("near_address") or "")
        return seen if seen and bare(seen) != bare(self.near_address) else ""

    @classmethod
    def connect(cls, peer: Peer, timeout_s: float = 10.0, family: int = socket.AF_UNSPEC) -> Control:
        """Connect, recognise the agent and be recognised. PeerError says which of these failed, and what to do."""
        deadline = time.monotonic() + timeout_s
        control = cls(peer, _secure(peer, _tcp(peer, deadline, family), deadline))
        try:
            control._greet(max(1.0, deadline - time.monotonic()))
        except BaseException:
            control.close()
            raise
        return control

    def call(
        self,
        name: str,
        timeout_s: float | None = None,
        quiet_s: float | None = None,
        hurried: Callable[[], object] = bool,
        **args: Json,
    ) -> dict[str, Json]:
        """Ask and wait for the answer. A refusal, a broken connection or an overdue answer is a PeerError.

        `quiet_s`: after so long without a word the far kernel must at least have acknowledged the request, or the line is cut; a
        busy agent behind a line that works is waited for all the same, unless `hurried` says that the run is to end.
        By default QUIET_S, or `timeout_s` where that is given.
        """
        patience = TIMEOUTS_S.get(name, CALL_TIMEOUT_S) if timeout_s is None else timeout_s
        if quiet_s is None:
            quiet_s = QUIET_S if timeout_s is None else timeout_s
        with self._asking:
            answer = self._call(name, patience, min(quiet_s, patience), hurried, args)
        if isinstance(answer, Refusal):
            raise PeerError(f"{self.peer.name}: {answer.message}", answer.hint, kind=answer.kind)
        return answer.result

    def _call(
        self, name: str, patience: float, quiet: float, hurried: Callable[[], object], args: dict[str, Json]
    ) -> Answer | Refusal:
        if self._socket is None:
            raise self._gone("the connection is closed")
        number, self._next = self._next, self._next + 1
        frame = encode(Request(number, name, args))
        begun = time.monotonic()
        try:
            self._socket.settimeout(patience)
            self._socket.sendall(frame)
            with contextlib.suppress(TimeoutError):
                return self._answer(number, begun + quiet)
            heard = self._acknowledged()
            while heard and not hurried() and (now := time.monotonic()) < begun + patience:
                with contextlib.suppress(TimeoutError):
                    return self._answer(number, min(begun + patience, now + _GLANCE_S))
            raise TimeoutError
        except TimeoutError:
            self._drop("silent")
            waited = min(patience, round(time.monotonic() - begun, 1))
            raise self._gone(f"no answer to {name} within {waited:g} s") from None
        except WireError as error:
            self._drop()
            raise self._gone(f"it sent no message we know ({error.message})") from None
        except (OSError, ValueError) as error:  # ValueError: ssl on a socket another signal handler closed
            self._drop(_how(error))
            raise self._gone(_reason(error)) from None

    def lost(self) -> str:
        """How the agent has gone away: "peer-lost" or "silent", "" while it has not. Looks without waiting and asks nothing.

        While another thread waits for an answer that one will notice, and what is known so far is told.
        """
        if not self._asking.acquire(blocking=False):
            return self._lost
        try:
            return self._look()
        finally:
            self._asking.release()

    def _look(self) -> str:
        if self._socket is None:
            return self._lost
        try:
            self._socket.settimeout(0)
            data = self._socket.recv(65536)
        except (ssl.SSLWantReadError, BlockingIOError):
            return ""
        except (OSError, ValueError) as error:
            self._drop(_how(error))
            return self._lost
        self._received += data
        if not data:
            self._drop()
        return self._lost if not data else ""

    def close(self) -> None:
        """Say goodbye and hang up. Never raises; the agent drops what it held for us either way."""
        alone = self._asking.acquire(timeout=GOODBYE_S)
        try:
            if alone and self._socket is not None:
                with contextlib.suppress(PeerError, WireError):
                    self.call("bye", timeout_s=GOODBYE_S)
            self._drop()
        finally:
            if alone:
                self._asking.release()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _greet(self, timeout_s: float) -> None:
        assert self._socket is not None
        pin = _fingerprint(self._socket)
        token = self.peer.token or ""
        nonce = secrets.token_hex(16)
        self.hello = self.call(
            "hello",
            timeout_s=timeout_s,
            protocols=list(PROTOCOLS),
            version=__version__,
            nonce=nonce,
            proof=proof(token, "near", pin, nonce),
        )
        if not same(str(self.hello.get("proof", "")), proof(token, "far", pin, nonce)):
            raise PeerError(f"{self.peer.name} does not know our token: this is not the agent we mean", _PAIR, "token")

    def _answer(self, number: int, deadline: float) -> Answer | Refusal:
        while True:
            message = self._message(deadline)
            if isinstance(message, Request):
                raise WireError("the far end asks, but only the near end may")
            if message.id == number:
                return message
            if message.id > number:  # smaller: the late answer to a call an interrupt cut short
                raise WireError("an answer to a question never asked")

    def _acknowledged(self) -> bool:
        """Whether the far kernel has everything we sent."""
        assert self._socket is not None
        waiting = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))  # SIOCOUTQ: octets not acknowledged
        return not any(waiting)

    def _message(self, deadline: float) -> Message:
        length = frame_length(self._read(LENGTH_OCTETS, deadline))
        payload = self._read(LENGTH_OCTETS + length, deadline)[LENGTH_OCTETS:]
        del self._received[: LENGTH_OCTETS + length]
        return decode(payload)

    def _read(self, count: int, deadline: float) -> bytes:
        """The first `count` octets not yet taken, left in place: an interrupt between two reads loses none."""
        while len(self._received) < count:
            assert self._socket is not None
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("it closed the connection")
            self._received += data
        return bytes(self._received[:count])

    def _gone(self, why: str) -> PeerError:
        return PeerError(
            f"lost the agent at {self.peer.name}: {why}",
            AFTER_LOSS.get(self._lost, AFTER_LOSS["peer-lost"]),
            self._lost,
        )

    def _drop(self, how: str = "peer-lost") -> None:
        if self._socket is not None:
            self._lost = how
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None


def _tcp(peer: Peer, deadline: float, family: int) -> socket.socket:
    try:
        targets = socket.getaddrinfo(peer.host, peer.port, family, socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise PeerError(f"{peer.host!r} is not known: {_reason(error)}", "check the name", "unreachable") from None
    last: OSError = TimeoutError()
    for index, (found, kind, protocol, _, address) in enumerate(targets):
        share = max(0.1, (deadline - time.monotonic()) / (len(targets) - index))
        connection = socket.socket(found, kind, protocol)
        try:
            connection.settimeout(share)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
            connection.connect(address)
            _keep_alive(connection)
        except OSError as error:
            connection.close()
            last = error
        else:
            return connection
    if isinstance(last, ConnectionRefusedError):
        raise PeerError(f"{peer.host} refuses port {peer.port}: no agent listens there", _START, "refused")
    if isinstance(last, TimeoutError):
        raise PeerError(f"no answer from {peer.name}", _FIREWALL, "unreachable")
    raise PeerError(f"cannot reach {peer.name}: {_reason(last)}", _FIREWALL, "unreachable")


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _secure(peer: Peer, connection: socket.socket, deadline: float) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = (
        ssl.CERT_NONE
    )  # no authority signs an agent: its pin and the proofs of the token take that place
    try:
        connection.settimeout(max(0.5, deadline - time.monotonic()))
        secured = context.wrap_socket(connection)
    except TimeoutError:
        connection.close()
        raise PeerError(f"{peer.name} accepts connections but says nothing", _START, "not-an-agent") from None
    except (ssl.SSLEOFError, ConnectionError):
        connection.close()
        hint = f"if no agent runs there, {_START}; if one does, it may be flooded with connections: try again"
        raise PeerError(f"{peer.name} hangs up without a word", hint, "not-an-agent") from None
    except OSError as error:
        connection.close()
        raise PeerError(f"{peer.name} is not an agent: no TLS 1.3 ({_reason(error)})", _START, "not-an-agent") from None
    except BaseException:
        connection.close()
        raise
    found = _fingerprint(secured)
    if peer.pin is not None and not same(found, peer.pin):
        secured.close()
        raise PeerError(
            f"{peer.name} shows another certificate than the pinned one: sha256:{found[:16]}… instead of {peer.pin[:16]}…",
            "if the agent was set up anew, paste the pairing line it prints now; otherwise somebody else is answering",
            "certificate",
        )
    if peer.token is None:
        secured.close()
        raise PeerError(f"{peer.name} needs a token", f"{_PAIR}, or set LINKQUAL_TOKEN", "token")
    return secured


def _fingerprint(connection: ssl.SSLSocket) -> str:
    certificate = connection.getpeercert(binary_form=True)
    return hashlib.sha256(certificate or b"").hexdigest()


def _how(error: Exception) -> str:
    """Whether the connection was ended from there, or nothing is heard any more."""
    return "silent" if getattr(error, "errno", None) in _SILENCE or isinstance(error, TimeoutError) else "peer-lost"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "broken TLS").lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
