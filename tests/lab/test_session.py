from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from linkqual.errors import UsageError
from linkqual.lab import session
from linkqual.lab.line import load

from .isolated import require_isolation, until

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    require_isolation()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield
    for one in session.running():
        session.down(one.name)


def test_a_lab_stays_until_it_is_taken_down(tmp_path: Path) -> None:
    lab = session.up(load("clean"), "mein лаб/1")
    assert [one.name for one in session.running()] == ["mein лаб/1"]
    out = tmp_path / "out"
    ping = ["ping", "-c", "1", "-n", lab.addresses[lab.far][0]]
    assert session.execute("", lab.near, ["sh", "-c", f'"$@" > {out}', "sh", *ping]) == 0
    assert "1 received" in out.read_text()
    assert session.execute("mein лаб/1", "core", ["sh", "-c", "exit 7"]) == 7
    with pytest.raises(UsageError, match="already up"):
        session.up(load("clean"), "mein лаб/1")
    with pytest.raises(UsageError, match="has no node 'cor'"):
        session.execute("", "cor", ["true"])
    assert session.down() == lab
    assert session.running() == ()
    until(lambda: not os.path.exists(f"/proc/{lab.inner}"), "the end of the lab")
    assert not list(tmp_path.glob("linkqual/lab/*"))


def test_what_a_killed_lab_left_is_cleared(tmp_path: Path) -> None:
    lab = session.up(load("clean"))
    assert list(tmp_path.glob("linkqual/lab/clean.json"))
    os.kill(lab.holder, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{lab.inner}"), "the end of the lab")
    assert session.running() == ()
    assert not list(tmp_path.glob("linkqual/lab/*"))
    again = session.up(load("clean"))
    assert session.running() == (again,)


def test_without_a_lab_there_is_nothing_to_do() -> None:
    with pytest.raises(UsageError, match="no lab is up"):
        session.down()
    with pytest.raises(UsageError, match="no lab is called 'x'"):
        session.execute("x", "core", ["true"])
