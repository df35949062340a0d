"""What doctor says of a host, in health and without one thing after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linkqual import doctor
from linkqual.doctor import Check, Mend, State, describe, examine, ready
from linkqual.model import ClockState
from linkqual.net import abilities, clock_state, host

EVERYTHING = frozenset({"veth", "tbf", "nft", "tun"})
GOOD_CLOCK = ClockState("chrony", True, 200_000, "")


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host on which everything works; a test takes one thing away."""
    monkeypatch.setattr(host, "iperf3_version", lambda: "3.20")
    monkeypatch.setattr(clock_state, "clock_state", lambda: GOOD_CLOCK)
    monkeypatch.setattr(doctor.shutil, "which", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(abilities, "namespaces", lambda: (True, EVERYTHING))
    monkeypatch.setattr(abilities, "raw_sockets", lambda: True)
    monkeypatch.setattr(abilities, "stamps", lambda _address="127.0.0.1": frozenset({"tx", "rx"}))
    monkeypatch.setattr(abilities, "buffers", lambda: abilities.Buffers(16 << 20, None))
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _pid: {0, 1})
    return monkeypatch


def look(name: str, folder: Path | None = None) -> Check:
    return next(check for check in examine(folder) if check.name == name)


def test_a_healthy_host(healthy: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert healthy
    checks = examine(tmp_path)
    assert [check for check in checks if check.state is not State.OK] == []
    assert ready(checks)
    assert describe(checks)[-1] == "the default test can run: linkqual test"


def test_only_what_is_needed_can_refuse_the_default_test() -> None:
    spare, needed = (Check("x", State.MISSING, "gone", "no x", needed=needed) for needed in (False, True))
    assert ready([spare])
    assert not ready([spare, needed])


def test_this_host_is_looked_at_for_real() -> None:
    checks = examine()
    assert len({check.name for check in checks}) == len(checks) >= 15
    assert all(check.found and check.means for check in checks)
    assert all(check.mend for check in checks if check.state is State.MISSING)
    tree = doctor.as_json(checks)
    assert json.loads(json.dumps(tree)) == tree
    assert tree["default_test"] is ready(checks)


def test_without_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    host.program_version.cache_clear()
    checks = {check.name: check for check in examine(tmp_path)}
    host.program_version.cache_clear()
    for name in ("iperf3", "ping", "ip", "tc", "nft", "namespaces"):
        assert checks[name].state is State.MISSING
        assert checks[name].needed
    assert checks["ping"].mend == Mend("apt-get install -y iputils-ping", "dnf install -y iputils")
    assert not ready(list(checks.values()))
    assert "cannot run: iperf3, ping, ip, tc, nft, namespaces" in describe(list(checks.values()))[-1]


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        (None, State.MISSING, "no throughput can be measured"),
        ("3.1.3", State.LIMITED, "iperf3 3.1.3: totals count data that came after the end"),
        ("3.9", State.LIMITED, "iperf3 3.9: all streams share one thread"),
        ("3.12", State.LIMITED, "iperf3 3.12: all streams share one thread"),
        ("3.16", State.LIMITED, "may crash when its threads end"),
        ("3.17.1+", State.LIMITED, "--get-server-output overflows"),
        ("3.20", State.OK, "measures TCP throughput"),
        ("3.18", State.OK, "measures TCP throughput"),
        ("4.0-beta1", State.OK, "measures TCP throughput"),
    ],
)
def test_versions_of_iperf3(healthy: pytest.MonkeyPatch, version: str | None, state: State, said: str) -> None:
    healthy.setattr(host, "iperf3_version", lambda: version)
    check = look("iperf3")
    assert check.state is state
    assert said in check.means
    assert ready(examine()) is (version is not None)


@pytest.mark.parametrize(
    ("answer", "name", "state"),
    [
        ((False, frozenset()), "namespaces", State.MISSING),
        ((True, frozenset()), "namespaces", State.MISSING),
        ((True, EVERYTHING - {"tbf"}), "namespaces", State.MISSING),
        ((True, EVERYTHING - {"tun"}), "delay of the line", State.MISSING),
        ((True, EVERYTHING), "delay of the line", State.OK),
    ],
)
def test_namespaces(healthy: pytest.MonkeyPatch, answer: tuple[bool, frozenset[str]], name: str, state: State) -> None:
    healthy.setattr(abilities, "namespaces", lambda: answer)
    check = look(name)
    assert check.state is state
    assert bool(check.mend) is (state is State.MISSING)
    assert ready(examine()) is (state is State.OK)


def test_programs_that_are_missing_are_no_refusal_of_the_kernel(healthy: pytest.MonkeyPatch) -> None:
    healthy.setattr(abilities, "namespaces", lambda: (False, frozenset()))
    healthy.setattr(doctor.shutil, "which", lambda _program: None)
    check = look("namespaces")
    assert check.found == "not tried: no program unshare, nsenter, ip in PATH"
    assert check.mend.debian == "apt-get install -y util-linux iproute2"
    assert check.mend.rhel == "dnf install -y util-linux iproute"


def test_a_missing_kernel_module_is_named(healthy: pytest.MonkeyPatch) -> None:
    healthy.setattr(abilities, "namespaces", lambda: (True, EVERYTHING - {"tbf", "nft"}))
    assert str(look("namespaces").mend) == "modprobe -a sch_tbf nf_tables"


@pytest.mark.parametrize(
    ("state", "expected", "said"),
    [
        (ClockState("none", False, None), State.LIMITED, "not known in absolute terms"),
        (ClockState("systemd-timesyncd", True, None), State.LIMITED, "no bound of its error"),
        (ClockState("chrony", True, 5_000_000), State.LIMITED, "no better than that"),
        (ClockState("chrony", True, 20_000), State.OK, "known to that bound"),
    ],
)
def test_clocks(healthy: pytest.MonkeyPatch, state: ClockState, expected: State, said: str) -> None:
    healthy.setattr(clock_state, "clock_state", lambda: state)
    check = look("clock")
    assert check.state is expected
    assert said in check.means
    assert ready(examine())  # never a reason to refuse the default test


def test_what_limits_and_does_not_prevent(healthy: pytest.MonkeyPatch) -> None:
    healthy.setattr(abilities, "raw_sockets", lambda: False)
    healthy.setattr(abilities, "buffers", lambda: abilities.Buffers(212_992, None))
    healthy.setattr(
        abilities, "stamps", lambda address="127.0.0.1": frozenset() if address == "::1" else frozenset({"rx"})
    )
    healthy.setattr(doctor.os, "sched_getaffinity", lambda _pid: {0})
    checks = {check.name: check for check in examine()}
    for name in ("raw sockets", "socket buffers", "kernel stamps", "IPv6", "CPUs"):
        assert checks[name].state is State.LIMITED
        assert checks[name].mend
    assert ready(list(checks.values()))
    assert "net.core.rmem_max" in str(checks["socket buffers"].mend)


def test_a_folder_that_is_not_there_is_no_place_for_runs(healthy: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert healthy
    check = look("room for runs", tmp_path / "nowhere")
    assert check.state is State.MISSING
    assert not ready(examine(tmp_path / "nowhere"))


def test_the_command_is_that_of_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    mend = Mend.packages("iputils-ping", "iputils")
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None if program == "apt-get" else program)
    assert str(mend) == "dnf install -y iputils"
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None if program == "dnf" else program)
    assert str(mend) == "apt-get install -y iputils-ping"
