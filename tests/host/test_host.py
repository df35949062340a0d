"""What the host says of itself: versions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from linkqual import __version__
from linkqual.net import host


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
