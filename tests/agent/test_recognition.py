"""Who is let in, who is not, and that the agent goes on serving after all of them."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from linkqual.agent.identity import load_or_make, make
from linkqual.errors import HostError, PeerError
from linkqual.net.control import Control
from linkqual.wire.control import LENGTH_OCTETS, Answer, Request, decode, encode, frame_length
from linkqual.wire.pairing import Peer

pytestmark = pytest.mark.loopback


def serves(peer: Peer) -> bool:
    with Control.connect(peer) as control:
        return "port" in control.call("trace.target")


def refusal(peer: Peer, timeout_s: float = 5.0) -> PeerError:
    with pytest.raises(PeerError) as caught:
        Control.connect(peer, timeout_s).close()
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def raw(peer: Peer) -> socket.socket:
    connection = socket.create_connection((peer.host, peer.port), 5)
    connection.settimeout(10)
    return connection


def ends(connection: socket.socket) -> bool:
    """Whether the other side hangs up (waits for it); it may say something before."""
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def at(listener: socket.socket, **more: Any) -> Peer:
    return Peer("127.0.0.1", listener.getsockname()[1], "a token for tests", **more)


def test_a_near_end_with_the_pairing_line_is_served(agent: Any) -> None:
    with Control.connect(Peer.parse(agent.peer.line)) as control:
        assert control.hello["protocol"] == 1
        assert control.hello["near_address"] == control.near_address == "127.0.0.1"
        assert control.peer_address == "127.0.0.1"
        assert control.hello["caps"]["max_sessions"] == 1
        assert not control.lost()


def test_an_address_translated_on_the_way_is_noticed(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        assert control.hello["near_address"] == "127.0.0.1"
        assert control.seen_as == ""
        control.hello["near_address"] = "::ffff:127.0.0.1"
        assert control.seen_as == ""
        control.hello["near_address"] = "203.0.113.9"
        assert control.seen_as == "203.0.113.9"


def test_the_token_alone_is_enough_where_the_certificate_is_not_known(agent: Any) -> None:
    assert serves(replace(agent.peer, pin=None))


def test_a_wrong_token_is_refused_once_and_clearly(agent: Any) -> None:
    error = refusal(replace(agent.peer, token="a wrong token, a long one"))
    assert error.kind == "token"
    assert "does not accept this token" in error.message
    assert agent.logged("refused, the agent does not accept this token")
    assert serves(agent.peer)


def test_a_wrong_certificate_is_noticed_before_anything_is_said(agent: Any) -> None:
    error = refusal(replace(agent.peer, pin="0" * 64))
    assert error.kind == "certificate"
    assert agent.logged("no near end")
    assert serves(agent.peer)


def test_without_a_token_nothing_is_asked(agent: Any) -> None:
    assert refusal(replace(agent.peer, token=None)).kind == "token"


def test_another_version_is_told_so(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkqual.net.control.PROTOCOLS", (99,))
    error = refusal(agent.peer)
    assert error.kind == "version"
    assert "protocol 1" in error.message
    assert "speaks 99" in error.message


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = refusal(Peer("127.0.0.1", port, "a token for tests"))
    assert error.kind == "refused"
    assert str(port) in error.message


def test_no_such_name() -> None:
    assert refusal(Peer("no-such-name.invalid", 4862, "a token for tests")).kind == "unreachable"


def test_no_answer_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_self: socket.socket, _address: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket.socket, "connect", never)
    error = refusal(Peer("192.0.2.1", 4862, "a token for tests"))
    assert error.kind == "unreachable"
    assert "192.0.2.1:4862" in error.message


def test_a_server_of_another_kind(listener: socket.socket) -> None:
    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            connection.recv(4096)

    threading.Thread(target=answer, daemon=True).start()
    assert refusal(at(listener)).kind == "not-an-agent"


def test_a_server_that_says_nothing(listener: socket.socket) -> None:
    assert refusal(at(listener), timeout_s=0.5).kind == "not-an-agent"


def test_an_agent_without_our_token_is_not_believed(listener: socket.socket) -> None:
    """Somebody with a certificate of his own who lets everybody in, to feed us results."""

    def welcome() -> None:
        connection, _ = listener.accept()
        with connection, make().context().wrap_socket(connection, server_side=True) as secured:
            length = frame_length(secured.recv(LENGTH_OCTETS))
            hello = decode(secured.recv(length))
            secured.sendall(encode(Answer(hello.id, {"protocol": 1, "proof": "0" * 64})))
            secured.recv(4096)

    threading.Thread(target=welcome, daemon=True).start()
    assert refusal(at(listener)).kind == "token"


def test_somebody_in_the_middle_can_pass_nothing_on(agent: Any, listener: socket.socket) -> None:
    """He has a certificate of his own; the near end knows no pin. He relays every octet between both."""

    def relay() -> None:
        connection, _ = listener.accept()
        with (
            connection,
            make().context().wrap_socket(connection, server_side=True) as near,
            raw(agent.peer) as far_plain,
            trusting().wrap_socket(far_plain) as far,
        ):
            far.sendall(near.recv(4096))
            near.sendall(far.recv(4096))
            near.recv(4096)

    threading.Thread(target=relay, daemon=True).start()
    assert refusal(at(listener)).kind == "token"
    assert agent.logged("does not accept this token")
    assert serves(agent.peer)


GARBAGE = [b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\x16\x03\x01\xff\xff" + b"\0" * 50]


@pytest.mark.parametrize("garbage", GARBAGE, ids=["zeros", "http", "random", "a hello cut short"])
def test_garbage_before_tls(start_agent: Callable[..., Any], garbage: bytes) -> None:
    agent = start_agent(hello_s=0.5)
    with raw(agent.peer) as connection:
        connection.sendall(garbage)
        assert ends(connection)
    assert serves(agent.peer)


FRAMES = {
    "garbage": os.urandom(64),
    "too long": b"\0\0\xff\xff" + b"x" * 100,
    "no request": encode(Answer(0, {})),
    "not hello": encode(Request(0, "iperf3.open", {"seconds": 5})),
    "hello without proof": encode(Request(0, "hello", {"protocols": [1]})),
    "nested": (5000).to_bytes(4, "big") + b"[" * 5000,
    "nothing": b"",
    "half a length": b"\0\0",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_garbage_inside_tls(start_agent: Callable[..., Any], frame: bytes) -> None:
    agent = start_agent(hello_s=0.5)
    with raw(agent.peer) as connection, trusting().wrap_socket(connection) as secured:
        secured.sendall(frame)
        assert ends(secured)
    assert agent.logged("no ")
    assert serves(agent.peer)


def test_older_tls_is_refused(agent: Any) -> None:
    context = trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with raw(agent.peer) as connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection)
    assert serves(agent.peer)


def test_half_open_connections_keep_nobody_out(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(hello_s=600.0, max_waiting_each=4)
    silent = [raw(agent.peer) for _ in range(12)]
    assert serves(agent.peer)
    assert agent.logged("dropping the oldest")
    for connection in silent[:8]:
        assert ends(connection)
    for connection in silent:
        connection.close()


def test_a_greeting_that_never_comes_is_not_awaited_for_ever(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(hello_s=0.3)
    with raw(agent.peer) as before_tls, raw(agent.peer) as plain, trusting().wrap_socket(plain) as inside_tls:
        assert ends(before_tls)
        assert ends(inside_tls)


def test_a_flood_leaves_it_serving_and_holding_nothing(start_agent: Callable[..., Any]) -> None:
    agent = start_agent()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        raw(agent.peer).close()
    assert agent.eventually(lambda: serves(agent.peer))
    assert agent.eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
    assert len([line for line in agent.lines if "dropp" in line]) <= 2


def test_the_certificate_is_kept_and_private(start_agent: Callable[..., Any], tmp_path: Any) -> None:
    folder = tmp_path / "agent"
    first = start_agent(ephemeral=False, directory=folder)
    first.end()
    second = start_agent(ephemeral=False, directory=folder)
    assert first.peer.pin == second.peer.pin
    assert (folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert serves(second.peer)


def test_an_ephemeral_certificate_is_another_each_time(start_agent: Callable[..., Any]) -> None:
    assert start_agent().peer.pin != start_agent().peer.pin


@pytest.mark.parametrize("damage", ["empty", "other key", "folder is a file"])
def test_a_damaged_certificate_is_told_with_a_way_out(tmp_path: Any, damage: str) -> None:
    folder = tmp_path / "agent"
    load_or_make(folder)
    if damage == "empty":
        (folder / "certificate.pem").write_text("")
    elif damage == "other key":
        (folder / "key.pem").write_bytes(make().key)
    else:
        folder = folder / "key.pem"
    with pytest.raises(HostError) as caught:
        load_or_make(folder)
    assert "--ephemeral" in caught.value.hint


def test_a_taken_port_is_told(start_agent: Callable[..., Any], listener: socket.socket) -> None:
    from linkqual.agent.link import listen

    with pytest.raises(HostError, match="in use"):
        listen("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(HostError):
        listen("192.0.2.1", 0)


def test_every_address_means_both_families(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(bind_address="", name="127.0.0.1")
    assert serves(agent.peer)
    assert serves(replace(agent.peer, host="::1"))
