"""What a session holds, its caps, and that all of it goes when the near end does."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from linkqual.agent.config import AgentConfig, Caps
from linkqual.agent.session import Session
from linkqual.errors import PeerError, UsageError
from linkqual.net.control import Control
from linkqual.net.trace import trace
from linkqual.wire.control import FORGOTTEN, text_bytes, unpacked_text
from linkqual.wire.pairing import Peer
from linkqual.wire.stamp_auth import decode_reflector, encode_sender
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat

pytestmark = pytest.mark.loopback

STAMP = {"rate_pps": 100, "packet_bytes": 100, "seconds": 30}


def refused(control: Control, name: str, **args: Any) -> PeerError:
    with pytest.raises(PeerError) as caught:
        control.call(name, **args)
    return caught.value


def taken(port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        if kind == socket.SOCK_STREAM:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT holds nothing
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def await_free(port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> bool:
    from time import monotonic, sleep

    deadline = monotonic() + 10
    while taken(port, kind):
        if monotonic() > deadline:
            return False
        sleep(0.01)
    return True


BURSTS = {
    "direction": "forward", "bursts": 1, "packets": 1, "packet_bytes": 100, "flows": 1, "gap_ns": 1000, "period_ns": 10**6,
    "quiet_ns": 10**6, "patience_ns": 10**8, "overlap": False, "most_repeats": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("stamp.open", STAMP),
        ("load.open", {"direction": "forward", "longest": 472}),
        ("bursts.open", BURSTS),
        ("mtu.open", {}),
    ],
)
def test_a_port_that_somebody_took_after_it_was_seen_free_is_left_to_him(
    agent: Any, name: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = Session._free_reflector_port
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        seen = iter([other.getsockname()[1]])
        monkeypatch.setattr(Session, "_free_reflector_port", lambda self: next(seen, None) or free(self))
        with Control.connect(agent.peer) as control:
            opened = control.call(name, **arguments)
            assert next(seen, None) is None
            assert opened["port"] != other.getsockname()[1]
            assert taken(opened["port"], socket.SOCK_DGRAM)


def test_a_reflector_lives_as_long_as_the_session_says(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        opened = control.call("stamp.open", **STAMP)
        assert taken(opened["port"], socket.SOCK_DGRAM)
        assert 1 <= opened["ssid"] <= 0xFFFF
        assert control.call("stamp.counters", session=opened["session"])["counters"]["answered"] == 0
        bitmap = text_bytes(control.call("stamp.arrived", session=opened["session"], first=0, count=9)["arrived"])
        assert bitmap == b"\0\0"
        beside = control.call("stamp.open", **STAMP)  # of another service of the line
        assert (beside["session"], beside["port"]) != (opened["session"], opened["port"])
        assert refused(control, "stamp.counters", session="another").kind == "state"
        closed = control.call("stamp.close", session=opened["session"])
        assert closed["stamps"] == []
        assert not taken(opened["port"], socket.SOCK_DGRAM)
        assert control.call("stamp.counters", session=beside["session"])["counters"]["answered"] == 0
        assert refused(control, "stamp.close", session=opened["session"]).kind == "state"


def test_the_far_host_measures_itself_once(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        found = control.call("calibrate")
        assert found["n"] > 0, found["why_not"]
        assert 0 < found["rtt_p50_ns"] <= found["rtt_p99_ns"]
        assert refused(control, "calibrate").kind == "state"


def test_the_reflector_answers_only_the_near_end(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        opened = control.call("stamp.open", **STAMP)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.2", 0))
            stranger.settimeout(0.3)
            stranger.sendto(bytes(100), ("127.0.0.1", opened["port"]))
            with pytest.raises(TimeoutError):
                stranger.recv(2048)
        counters = control.call("stamp.close", session=opened["session"])["counters"]
        assert counters["answered"] == 0
        assert counters["foreign"] == 1


def test_the_host_is_described(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        host = control.call("host")
    assert host["versions"]["python"].startswith("3.")
    assert host["clock"].keys() >= {"source", "synchronised", "error_ns"}
    assert all(isinstance(count, int) for count in host["drops"].values())
    assert host["boot_id"]


def test_a_reverse_trace_goes_to_the_near_end(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        target = control.call("trace.target")["port"]
        found = control.call("trace", source_port=target, destination_port=40123, max_hops=3, rounds=1)
    assert (found["source"], found["destination"]) == ("127.0.0.1", "127.0.0.1")
    assert found["hops"][-1]["reached"]


def test_a_forward_trace_is_answered_for_as_long_as_it_may_be_needed(agent: Any) -> None:
    """Also where a firewall swallows ICMP: by a datagram, from an open port. One at a time, and none after the session."""
    with Control.connect(agent.peer) as control:
        first = control.call("trace.target")["port"]
        assert taken(first, socket.SOCK_DGRAM)
        found = trace("127.0.0.1", 0, first, max_hops=3, rounds=1)
        assert found.hops[-1].reached
        second = control.call("trace.target", port=first + 200)["port"]
        assert not taken(first, socket.SOCK_DGRAM)
        assert taken(second, socket.SOCK_DGRAM)
        control.call("trace", source_port=second, destination_port=40123, max_hops=3, rounds=1)
        assert not taken(second, socket.SOCK_DGRAM)
        brief = control.call("trace.target", seconds=1)["port"]
        assert await_free(brief, socket.SOCK_DGRAM)
        third = control.call("trace.target")["port"]
    assert await_free(third, socket.SOCK_DGRAM)


def test_a_taken_target_port_is_told(agent: Any) -> None:
    with Control.connect(agent.peer) as control, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 0))
        assert refused(control, "trace.target", port=holder.getsockname()[1]).kind == "busy"


def test_an_iperf3_server_is_there_for_one_test(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        opened = control.call("iperf3.open", seconds=1)
        client = ["iperf3", "-c", "127.0.0.1", "-p", str(opened["port"]), "-J", "-t", "1"]
        subprocess.run(client, check=True, capture_output=True, timeout=20)
        closed = control.call("iperf3.close")
        assert (closed["exit_code"], closed["killed"]) == (0, "")
        assert json.loads(unpacked_text(closed["output"]))["intervals"]
        assert await_free(opened["port"])
        assert refused(control, "iperf3.close").kind == "state"


def test_there_is_one_iperf3_server_for_each_direction(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        ports = [control.call("iperf3.open", seconds=1)["port"] for _ in range(2)]
        assert refused(control, "iperf3.open", seconds=1).kind == "state"
        assert refused(control, "iperf3.close").kind == "state"  # which?
        assert control.call("iperf3.close", port=ports[0], wait_ms=0)["exit_code"] == -signal.SIGKILL
        assert not taken(ports[0])
        assert taken(ports[1])
    assert await_free(ports[1])


def test_a_congestion_control_the_far_kernel_lacks_is_told_before_the_load(
    agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("linkqual.net.host.socket.TCP_CONGESTION", -1)
    with Control.connect(agent.peer) as control:
        error = refused(control, "iperf3.open", seconds=1, congestion_control="bbr")
    assert error.kind == "no-capability"
    assert "bbr" in error.message
    assert "modprobe" in error.hint


def test_an_iperf3_server_nobody_came_to_is_ended(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        opened = control.call("iperf3.open", seconds=1)
        assert taken(opened["port"])
        assert control.call("iperf3.close", wait_ms=0)["exit_code"] == -signal.SIGKILL
        assert await_free(opened["port"])


def test_without_iperf3_the_far_end_says_so(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with Control.connect(agent.peer) as control:
        error = refused(control, "iperf3.open", seconds=1)
        assert error.kind == "missing-program"
        assert "far end" in error.message
        assert "install" in error.hint
        assert "port" in control.call("trace.target")


def test_a_taken_iperf3_port_is_passed_over(start_agent: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        agent = start_agent(iperf3_ports=(port, port))
        with Control.connect(agent.peer) as control:
            error = refused(control, "iperf3.open", seconds=1)
            assert error.kind == "busy"
            assert str(port) in error.message
    agent = start_agent(iperf3_ports=(port, min(port + 20, 65535)))
    with socket.create_server(("127.0.0.1", port)), Control.connect(agent.peer) as control:
        assert control.call("iperf3.open", seconds=1)["port"] > port


def test_taken_reflector_ports_are_told(start_agent: Callable[..., Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        agent = start_agent(reflector_ports=(port, port))
        with Control.connect(agent.peer) as control:
            assert refused(control, "stamp.open", **STAMP).kind == "busy"


def test_an_iperf3_that_does_not_start_is_told(agent: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    program = tmp_path / "iperf3"
    program.write_text("#!/bin/sh\necho broken library >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert shutil.which("iperf3") == str(program)
    with Control.connect(agent.peer) as control:
        error = refused(control, "iperf3.open", seconds=1)
        assert error.kind == "failed"
        assert "broken library" in error.message


def test_caps_are_the_agents(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(caps=Caps(max_pps=50, max_bytes=1_000_000, max_seconds=10))
    with Control.connect(agent.peer) as control:
        assert control.hello["caps"]["max_pps"] == 50
        error = refused(control, "stamp.open", **(STAMP | {"seconds": 5}))
        assert error.kind == "cap"
        assert "--max-pps 100" in error.hint
        assert refused(control, "stamp.open", **(STAMP | {"rate_pps": 50})).kind == "cap"
        assert refused(control, "iperf3.open", seconds=11).kind == "cap"
        opened = control.call("iperf3.open", seconds=5)
        client = ["iperf3", "-c", "127.0.0.1", "-p", str(opened["port"]), "-J", "-t", "5"]
        subprocess.run(client, check=False, capture_output=True, timeout=20)
        assert control.call("iperf3.close")["killed"] == "cap"
        assert refused(control, "iperf3.open", seconds=1).kind == "cap"


def test_what_a_reflector_remembers_follows_from_rate_and_time(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from linkqual.net.reflector import Reflector, ReflectorConfig

    start, made = Reflector.start, []

    def seen(config: ReflectorConfig) -> Reflector:
        made.append(config)
        return start(config)

    monkeypatch.setattr(Reflector, "start", seen)
    with Control.connect(agent.peer) as control:
        control.call("stamp.open", **(STAMP | {"rate_pps": 100, "seconds": 10, "packets": 2**48}))
    assert made[0].max_packets == 2 * 1000 + 1000


def test_caps_and_ports_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError):
        Caps(max_pps=0)
    with pytest.raises(UsageError):
        AgentConfig(iperf3_ports=(9, 5))
    with pytest.raises(UsageError):
        AgentConfig(port=70000)


def test_nonsense_inside_a_session_is_answered_and_forgotten(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        assert refused(control, "no.such.request").kind == "bad-request"
        assert refused(control, "iperf3.open", seconds=1, command="; reboot").kind == "bad-request"
        assert refused(control, "stamp.arrived", session="", first=-1, count=1).kind == "bad-request"
        assert refused(control, "hello", protocols=[1], version="", nonce="", proof="").kind == "state"
        assert "port" in control.call("trace.target")


def test_a_fault_of_ours_does_not_end_the_agent(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_interfaces: object) -> dict[str, int]:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("linkqual.net.drops.counters", broken)
    with Control.connect(agent.peer) as control:
        assert refused(control, "host").kind == "failed"
        assert "port" in control.call("trace.target")
    assert agent.logged("ZeroDivisionError")


def test_an_answer_too_long_is_a_refusal(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkqual.net.host.boot_id", lambda: "x" * 5_000_000)
    with Control.connect(agent.peer) as control:
        assert refused(control, "host").kind == "failed"
        assert "port" in control.call("trace.target")


def test_what_does_not_end_blocks_nobody(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from linkqual.net.reflector import Reflector

    close = Reflector.close

    def stubborn(reflector: Reflector) -> None:
        close(reflector)
        raise RuntimeError("stubborn")

    monkeypatch.setattr(Reflector, "close", stubborn)
    with Control.connect(agent.peer) as control:
        control.call("stamp.open", **STAMP)
    assert agent.logged("stubborn")
    Control.connect(agent.peer).close()


def test_a_second_near_end_is_told_who_was_first(agent: Any) -> None:
    with Control.connect(agent.peer) as first:
        opened = first.call("stamp.open", **STAMP)
        with pytest.raises(PeerError) as caught:
            Control.connect(agent.peer)
        assert caught.value.kind == "busy"
        assert "in use by 127.0.0.1 since 20" in caught.value.message
        assert not first.lost()
        assert taken(opened["port"], socket.SOCK_DGRAM)
        first.call("stamp.close", session=opened["session"])
    Control.connect(agent.peer).close()


def test_one_after_the_other_without_waiting(agent: Any) -> None:
    for _ in range(5):
        with Control.connect(agent.peer) as control:
            control.call("trace.target")


def test_more_sessions_where_the_owner_allows_them(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(caps=Caps(max_sessions=2))
    with Control.connect(agent.peer) as first, Control.connect(agent.peer) as second:
        ports = [one.call("stamp.open", **STAMP)["port"] for one in (first, second)]
        assert len(set(ports)) == 2


NEAR = """
import sys, time
from linkqual.net.control import Control, Peer
control = Control.connect(Peer.parse(sys.argv[1]))
print(control.call("stamp.open", rate_pps=100, packet_bytes=100, seconds=60)["port"])
print(control.call("iperf3.open", seconds=60)["port"], flush=True)
time.sleep(60)
"""


def test_a_near_end_killed_takes_everything_with_it(agent: Any) -> None:
    with subprocess.Popen([sys.executable, "-c", NEAR, agent.peer.line], stdout=subprocess.PIPE, text=True) as near:
        assert near.stdout is not None
        udp, tcp = int(near.stdout.readline()), int(near.stdout.readline())
        assert taken(udp, socket.SOCK_DGRAM)
        assert taken(tcp)
        near.kill()
    assert agent.logged("the near end hung up")
    assert await_free(udp, socket.SOCK_DGRAM)
    assert await_free(tcp)
    Control.connect(agent.peer).close()


def test_a_near_end_that_falls_silent_is_given_up(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(idle_s=0.2)
    with Control.connect(agent.peer) as control:
        assert agent.logged("nothing asked for")
        with pytest.raises(PeerError) as caught:
            control.call("host")
        assert caught.value.kind == "peer-lost"
        assert control.lost()
    Control.connect(agent.peer).close()


def test_a_near_end_waiting_for_what_it_started_is_no_silent_one(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(idle_s=0.2)
    with Control.connect(agent.peer) as control:
        opened = control.call("stamp.open", **STAMP)
        control.call("iperf3.open", seconds=1)
        control.call("iperf3.close", wait_ms=0)
        assert not agent.logged("nothing asked for", seconds=0.6)
        control.call("stamp.close", session=opened["session"])
        assert agent.logged("nothing asked for")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_and_all_it_started(agent_process: Any, number: signal.Signals) -> None:
    control = Control.connect(agent_process.peer)
    udp = control.call("stamp.open", **STAMP)["port"]
    tcp = control.call("iperf3.open", seconds=60)["port"]
    children = agent_process.children()
    assert len(children) >= 2
    agent_process.signal(number)
    assert agent_process.process.wait(20) == 0
    assert await_free(udp, socket.SOCK_DGRAM)
    assert await_free(tcp)
    assert control.lost()
    control.close()


def test_an_agent_killed_leaves_nothing_behind(agent_process: Any) -> None:
    control = Control.connect(agent_process.peer)
    udp = control.call("stamp.open", **STAMP)["port"]
    tcp = control.call("iperf3.open", seconds=60)["port"]
    agent_process.signal(signal.SIGKILL)
    assert await_free(udp, socket.SOCK_DGRAM)
    assert await_free(tcp)
    with pytest.raises(PeerError) as caught:
        control.call("host")
    assert caught.value.kind == "peer-lost"
    control.close()


def test_an_answer_overdue_is_a_lost_peer(agent_process: Any) -> None:
    control = Control.connect(agent_process.peer)
    agent_process.signal(signal.SIGSTOP)
    with pytest.raises(PeerError) as caught:
        control.call("host", timeout_s=0.2)
    assert caught.value.kind == "silent"
    assert "0.2 s" in caught.value.message
    assert caught.value.hint.startswith("either the line between was cut or the host there stopped")
    agent_process.signal(signal.SIGCONT)
    control.close()


def test_a_busy_agent_behind_a_line_that_works_is_waited_for(agent_process: Any) -> None:
    control = Control.connect(agent_process.peer)
    agent_process.signal(signal.SIGSTOP)
    with pytest.raises(PeerError) as caught:
        control.call("host", timeout_s=0.6, quiet_s=0.1)
    assert "0.6 s" in caught.value.message  # its kernel had acknowledged the request
    agent_process.signal(signal.SIGCONT)
    control.close()


def test_once_a_run_is_to_end_a_busy_agent_is_waited_for_no_longer(agent_process: Any) -> None:
    control = Control.connect(agent_process.peer)
    agent_process.signal(signal.SIGSTOP)
    with pytest.raises(PeerError) as caught:
        control.call("host", quiet_s=0.1, hurried=lambda: True)
    assert "0.1 s" in caught.value.message
    agent_process.signal(signal.SIGCONT)
    control.close()


def test_the_token_may_come_from_the_environment(
    start_agent: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINKQUAL_TOKEN", "a token of the environment")
    agent = start_agent(token=None)
    Control.connect(replace(agent.peer, token="a token of the environment")).close()
    monkeypatch.delenv("LINKQUAL_TOKEN")
    made = start_agent(token=None).peer
    assert isinstance(made, Peer)
    assert made.token is not None
    assert len(made.token) >= 20


def test_an_authenticated_reflector_has_a_key_of_its_own(agent: Any) -> None:
    keys = set()
    for _ in range(2):
        with Control.connect(agent.peer) as control:
            opened = control.call("stamp.open", **STAMP, authenticated=True)
            keys.add(opened["key"])
            assert len(bytes.fromhex(opened["key"])) == 32
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
                near.connect(("127.0.0.1", opened["port"]))
                near.settimeout(10)
                packet = SenderPacket(0, 0, ErrorEstimate(), opened["ssid"])
                near.send(encode_sender(packet, b"another"))
                near.send(encode_sender(packet, bytes.fromhex(opened["key"])))
                decode_reflector(near.recv(2048), bytes.fromhex(opened["key"]))
            counters = control.call("stamp.close", session=opened["session"])["counters"]
            assert (counters["answered"], counters["wrong_key"]) == (1, 1)
    assert len(keys) == 2
    assert not any(key in line for key in keys for line in agent.lines)


def test_a_reflector_is_stateless_and_stamps_as_asked(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        opened = control.call("stamp.open", **STAMP, stateless=True, timestamps="ptp", reply_ecn=2)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
            near.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            near.settimeout(10)
            packet = SenderPacket(9, 0, ErrorEstimate(), opened["ssid"])
            near.sendto(packet.encode(), ("127.0.0.1", opened["port"]))
            data, ancillary, _, _ = near.recvmsg(2048, 64)
        reply = ReflectorPacket.decode(data)
        assert (reply.sequence, reply.sender_sequence, reply.error.form) == (9, 9, TimestampFormat.PTP)
        assert ancillary[0][2][0] == 2


def test_arrivals_too_long_ago_are_refused_by_name(agent: Any) -> None:
    with Control.connect(agent.peer) as control:
        opened = control.call("stamp.open", rate_pps=400_000, packet_bytes=44, seconds=3000)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
            near.settimeout(10)
            for seq in (0, *range(60_000, 17_000_000, 60_000)):
                near.sendto(
                    SenderPacket(seq, 0, ErrorEstimate(), opened["ssid"]).encode(), ("127.0.0.1", opened["port"])
                )
                near.recv(100)
        error = refused(control, "stamp.arrived", session=opened["session"], first=0, count=10)
        assert error.kind == FORGOTTEN
        assert (
            text_bytes(control.call("stamp.arrived", session=opened["session"], first=16_980_000, count=8)["arrived"])
            == b"\1"
        )
