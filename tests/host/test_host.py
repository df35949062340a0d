"""What the host says of itself: clock, versions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from linkqual import __version__
from linkqual.model import ClockState
from linkqual.net import host

CHRONY = "A29FC801,ntp.example,3,1796022000.1,{offset},0.0001,0.0002,1.0,0.0,0.1,{delay},{dispersion},64.2,{leap}\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is all there is on PATH, but for the shell."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    host.program_version.cache_clear()
    yield tmp_path
    host.program_version.cache_clear()


def script(folder: Path, name: str, body: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


# ---- clock


def test_chrony_states_offset_and_root_distance() -> None:
    line = CHRONY.format(offset="-0.000012", delay="0.0123", dispersion="0.0004", leap="Normal")
    assert host.read_chrony(line) == ClockState("chrony", True, 6_562_000, "ntp.example, stratum 3, leap Normal")


def test_chrony_out_of_step_states_no_bound() -> None:
    state = host.read_chrony(CHRONY.format(offset="0", delay="1.0", dispersion="1.0", leap="Not synchronised"))
    assert state is not None
    assert not state.synchronised
    assert state.error_ns is None


@pytest.mark.parametrize("line", ["", "506 Cannot talk to daemon\n", "a,b,c,d,e,f,g,h,i,j,k,l,m,n\n", "1,2\n"])
def test_what_is_no_answer_of_chrony(line: str) -> None:
    assert host.read_chrony(line) is None


def test_chrony_is_asked_where_it_runs(programs: Path) -> None:
    line = CHRONY.format(offset="0.0005", delay="0", dispersion="0", leap="Normal").strip()
    script(programs, "chronyc", f"echo '{line}'")
    assert host.clock_state() == ClockState("chrony", True, 500_000, "ntp.example, stratum 3, leap Normal")


@pytest.mark.parametrize("body", ["echo '506 Cannot talk to daemon'; exit 1", "echo nonsense", "exit 0"])
def test_without_a_daemon_the_kernel_is_asked(programs: Path, body: str) -> None:
    script(programs, "chronyc", body)
    state = host.clock_state()
    assert state.source != "chrony"
    assert state.detail
    assert state.synchronised or state.error_ns is None


# ---- versions


def test_versions_of_what_measures() -> None:
    found = host.versions()
    assert found["linkqual"] == __version__
    assert {"python", "kernel", "numpy"} <= set(found)


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ("echo 'iperf 3.12 (cJSON 1.7.15)'; echo Linux", "3.12"),
        ("echo 'iperf 3.17.1+ (cJSON 1.7.15)'", "3.17.1+"),
        ("echo 'iperf 3.9 (cJSON 1.7.13)' >&2", "3.9"),
        ("echo nothing to say", None),
        ("exit 1", None),
    ],
)
def test_iperf3_says_its_version(programs: Path, body: str, version: str | None) -> None:
    script(programs, "iperf3", body)
    assert host.iperf3_version() == version


def test_ping_says_its_version(programs: Path) -> None:
    script(programs, "ping", "echo 'ping from iputils 20221126'")
    assert host.program_version("ping") == "20221126"


def test_a_program_that_is_not_there_has_no_version(programs: Path) -> None:
    assert programs.is_dir()
    assert host.iperf3_version() is None


def test_conditions_of_this_end() -> None:
    end = host.conditions()
    assert end.host == socket.gethostname()
    assert end.versions == host.versions()
    assert (end.drops, end.stamps, end.receive_buffer_bytes) == ({}, {}, None)


def test_both_ends_on_one_kernel_share_a_boot_id() -> None:
    assert host.boot_id() == host.boot_id() != ""
