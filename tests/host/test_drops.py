"""Counters of packets this host dropped: which there are, when they rise, and real packets that make them rise."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.net import drops, host, netlink, nic
from linkqual.net.drops import MOST_TIMES, Rise, Sampler, rise, thinned

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("family", "address", "prefix"), [(socket.AF_INET, "127.0.0.1", "Udp"), (socket.AF_INET6, "::1", "Udp6")]
)
def test_a_full_receive_buffer_is_counted(family: int, address: str, prefix: str) -> None:
    before = drops.counters()
    with socket.socket(family, socket.SOCK_DGRAM) as receiver, socket.socket(family, socket.SOCK_DGRAM) as sender:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiver.bind((address, 0))
        receiver.setblocking(False)
        for _ in range(200):
            sender.sendto(bytes(500), receiver.getsockname())
        kept = 0
        while True:
            try:
                receiver.recv(2048)
            except BlockingIOError:
                break
            kept += 1
    after = drops.counters()
    assert kept < 200
    assert after[f"{prefix}RcvbufErrors"] - before[f"{prefix}RcvbufErrors"] >= 200 - kept


def test_every_interface_has_its_counters() -> None:
    counters = drops.counters()
    for name in os.listdir("/sys/class/net"):
        assert {f"{name}:{kind}" for kind in ("rx_dropped", "tx_dropped", "rx_fifo", "tx_fifo")} <= set(counters)
    assert counters["softnet_dropped"] >= 0
    assert counters["softnet_squeezed"] >= 0
    assert {"UdpInCsumErrors", "Udp6InCsumErrors"} <= set(counters)


def test_only_the_interfaces_asked_for() -> None:
    assert {name.partition(":")[0] for name in drops.counters(["lo"]) if ":" in name} == {"lo"}
    assert netlink.outgoing_interface("127.0.0.1") == netlink.outgoing_interface("::1") == "lo"
    assert netlink.outgoing_interface("a-name.example") is None


@pytest.fixture
def pair() -> Iterator[None]:
    """A namespace for this thread with a veth pair `near` (10.93.0.1, one end of it full after three packets) and `far`."""
    from linkqual.lab.isolate import CLONE_NEWNET, setns, unshare

    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    unshare(CLONE_NEWNET)
    try:
        for words in (
            "ip link add near type veth peer name far", "ip address add 10.93.0.1/24 dev near", "ip link set near up",
            "ip link set far up", "ip neigh add 10.93.0.2 lladdr 02:00:00:00:00:02 dev near",
            "tc qdisc add dev near root tbf rate 8kbit burst 2000 limit 3000",
        ):  # fmt: skip
            subprocess.run(words.split(), check=True, capture_output=True)
        yield
    finally:
        setns(before, CLONE_NEWNET)
        os.close(before)


@pytest.mark.lab
@as_root
def test_a_queue_that_is_full_is_counted_by_its_interface(pair: None) -> None:
    assert netlink.outgoing_interface("10.93.0.2") == "near"
    assert netlink.outgoing_interface("192.0.2.1") is None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, Sampler("10.93.0.2", every_s=60) as sampler:
        refused = 0
        sender.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR: told when the queue refuses
        for _ in range(20):
            try:
                sender.sendto(bytes(900), ("10.93.0.2", 9))
            except OSError:
                refused += 1
    assert sampler.increase["near:qdisc_drops"] == refused > 10
    assert [(name, by) for _, name, by in sampler.times if "qdisc_drops" in name] == [("near:qdisc_drops", refused)]
    assert not any(name.startswith("far:") for name in sampler.increase)
    assert "near:nic/rx_queue_0_drops" in drops.counters(["near"])  # veth has a driver's counters, as cards have


@pytest.mark.lab
@as_root
def test_the_counters_are_those_of_the_threads_own_namespace() -> None:
    from linkqual.lab.isolate import CLONE_NEWNET, unshare

    seen: dict[str, int] = {}
    sampled: list[str] = []

    def inside() -> None:
        unshare(CLONE_NEWNET)
        seen.update(drops.counters())
        with Sampler(read=lambda chosen: sampled.append(os.readlink("/proc/thread-self/ns/net")) or {}):
            sampled.append(os.readlink("/proc/thread-self/ns/net"))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert "lo:rx_dropped" in seen
    assert "eth0:rx_dropped" not in seen
    assert seen["UdpRcvbufErrors"] == seen["UdpInErrors"] == 0
    assert len(set(sampled)) == 1
    assert sampled[0] != os.readlink("/proc/self/ns/net")


# ---- when


class Feigned:
    """Counters that are read one state after the other; the last one stays."""

    def __init__(self, *states: dict[str, int]) -> None:
        self.states = list(states)
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, interfaces: Collection[str]) -> dict[str, int]:
        self.asked.append(tuple(interfaces))
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


def test_a_sampler_tells_what_rose_and_when() -> None:
    read = Feigned(
        {"a": 5, "x:b": 1},
        {"a": 5, "x:b": 1},
        {"a": 7, "x:b": 1},
        {"a": 1, "x:b": 1, "new": 2},
        {"a": 1, "x:b": 1, "new": 2},
    )
    with Sampler("127.0.0.1", every_s=60, read=read) as sampler:
        for _ in range(3):
            sampler.look()
    assert sampler.increase == {"a": 3, "new": 2}  # it fell once: reset, and counted from zero; x:b did not move
    assert [(name, by) for _, name, by in sampler.times] == [("a", 2), ("a", 1), ("new", 2)]
    assert list(sampler.times) == sorted(sampler.times)
    assert set(read.asked) == {("lo",)}
    sampler.begin()
    assert (sampler.increase, sampler.times) == ({}, ())


def test_a_sampler_looks_by_itself_and_ends() -> None:
    looked = threading.Event()

    def read(_interfaces: Collection[str]) -> dict[str, int]:
        if threading.current_thread().name == "drops":
            looked.set()
        return {}

    with Sampler(every_s=0.001, read=read) as sampler:
        assert looked.wait(10)
    sampler.close()
    assert "drops" not in [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 100)), max_size=700))
def test_rises_are_kept_within_bounds_and_lose_none(rises: list[tuple[str, int]]) -> None:
    times: list[Rise] = [(at, name, by) for at, (name, by) in enumerate(rises)]
    kept = thinned(times)
    assert len(kept) <= MOST_TIMES
    assert [at for at, _, _ in kept] == sorted(at for at, _, _ in kept)
    for name in "abcdef":
        assert sum(by for _, mine, by in kept if mine == name) == sum(by for _, mine, by in times if mine == name)
    if len(times) <= MOST_TIMES:
        assert list(kept) == times


def test_more_counters_than_room() -> None:
    assert len(thinned([(at, f"c{at}", 1) for at in range(MOST_TIMES + 9)])) == MOST_TIMES


def test_a_rise_never_is_negative() -> None:
    assert rise({"a": 9, "b": 1}, {"a": 3, "b": 4, "c": 5}) == {"a": 3, "b": 3, "c": 5}


# ---- the card


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("rx_missed_errors", True), ("rx_out_of_buffer", True), ("out_of_buffer", True), ("rx_no_buffer_count", True),
        ("rx_discards_phy", True), ("rx_no_dma_resources", True), ("rx_fifo_errors", True), ("port.rx_dropped", True),
        ("rx0_drops", True), ("tx_queue_dropped", True), ("rx_nobuf", True), ("rx_packets", False), ("rx_crc_errors", False),
        ("rx_xdp_drop", False), ("rx_vlan_filter_drop", False), ("rx_bytes", False), ("rx_steer_missed_packets", True),
        ("port.rx_discards", True), ("dropped_smbus", False),
    ],
)  # fmt: skip
def test_names_of_drivers(name: str, counts: bool) -> None:
    assert nic.lacks_room(name) is counts


def test_a_cards_counters_are_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that answers as one would: the kernel fills the structure the request points to."""
    table = {"rx_packets": 10**12, "rx_out_of_buffer": 18_220, "rx_missed_errors": 0, "tx_dropped": 3}

    def ioctl(_descriptor: int, number: int, request: bytes) -> None:
        import ctypes

        assert number == 0x8946
        name, address = struct.unpack("=16sQ8x", request)
        assert name.rstrip(b"\0") == b"mlx0"
        (command,) = struct.unpack("=I", ctypes.string_at(address, 4))
        if command == 0x03:
            ctypes.memmove(address + 180, struct.pack("=I", len(table)), 4)
        elif command == 0x1B:
            assert ctypes.string_at(address + 4, 8) == struct.pack("=II", 1, len(table))
            names = b"".join(name.encode().ljust(32, b"\0") for name in table)
            ctypes.memmove(address + 12, names, len(names))
        else:
            assert command == 0x1D
            values = struct.pack(f"={len(table)}Q", *table.values())
            ctypes.memmove(address + 8, values, len(values))

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert nic.ring_drops("mlx0") == {"rx_out_of_buffer": 18_220, "rx_missed_errors": 0, "tx_dropped": 3}


def test_a_card_without_such_counters() -> None:
    assert nic.ring_drops("lo") == {}
    assert nic.ring_drops("no-such-card") == {}


@pytest.mark.parametrize(
    ("speed", "width", "rate", "says"),
    [
        ("8.0 GT/s PCIe", 8, 100_000, "8 lanes of 8 GT/s) carries at most 63 Gbit/s, less than the card's 100"),
        ("16.0 GT/s PCIe", 16, 400_000, "at most 252 Gbit/s, less than the card's 400"),
        ("5.0 GT/s", 4, 25_000, "at most 16 Gbit/s, less than the card's 25"),
        ("16.0 GT/s PCIe", 16, 200_000, ""),
        ("Unknown", 8, 100_000, ""),
        ("8.0 GT/s PCIe", 8, -1, ""),
        ("8.0 GT/s PCIe", 0, 100_000, ""),
    ],
)
def test_a_card_in_a_slot_too_narrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speed: str, width: int, rate: int, says: str
) -> None:
    device = tmp_path / "ens1f0" / "device"
    device.mkdir(parents=True)
    (device / "current_link_speed").write_text(f"{speed}\n")
    (device / "current_link_width").write_text(f"{width}\n")
    (tmp_path / "ens1f0" / "speed").write_text(f"{rate}\n")
    monkeypatch.setattr(nic, "_INTERFACES", tmp_path)
    said = nic.narrow_slot("ens1f0")
    assert says in said
    assert bool(said) is bool(says)
    monkeypatch.setattr(netlink, "outgoing_interface", lambda _address: "ens1f0")
    assert host.conditions("192.0.2.1").notes == ((said,) if said else ())
    assert nic.narrow_slot("no-such-card") == ""


def test_what_a_slot_carries_one_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "ens2" / "device"
    device.mkdir(parents=True)
    (device / "current_link_speed").write_text("16.0 GT/s PCIe\n")
    (device / "current_link_width").write_text("16\n")
    monkeypatch.setattr(nic, "_INTERFACES", tmp_path)
    assert nic.slot_bps("ens2") == pytest.approx(31.5e9 * 8, rel=1e-3)  # generation 4: 63 GB/s are both ways added
    monkeypatch.setattr(netlink, "outgoing_interface", lambda _address: "ens2")
    assert host.conditions("192.0.2.1").slot_bps == nic.slot_bps("ens2")
    assert nic.slot_bps("no-such-card") is None


def test_what_the_kernel_does_not_have_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drops, "_THREAD_NET", tmp_path)
    monkeypatch.setattr(netlink, "queues", list)
    assert drops.counters() == {}
