"""Children that end when told, when their time is over, and when we die; never later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from linkqual.errors import HostError
from linkqual.net import child


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_end(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def at_once(after: Path) -> Callable[[], str]:
    """Stop as soon as the child has written that file."""
    return lambda: "told" if after.exists() and after.read_text().strip() else ""


def test_both_outputs_and_the_exit_code() -> None:
    ended = child.run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=10)
    assert (ended.exit_code, ended.output, ended.errors, ended.stopped) == (3, b"out\n", b"err\n", "")


def test_more_output_than_a_pipe_holds() -> None:
    ended = child.run(["sh", "-c", "head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2"], timeout_s=30)
    assert (len(ended.output), len(ended.errors)) == (3_000_000, 300_000)


def test_a_plain_locale_and_nothing_to_read() -> None:
    assert child.run(["sh", "-c", "cat; echo $LC_ALL $TZ"], timeout_s=10).output == b"C UTC\n"


def test_told_to_stop_it_may_still_speak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE_S", 20)  # a machine that stands still for two seconds is not what is tested
    ready = tmp_path / "ready"
    script = f"trap 'echo last words; exit 0' INT; echo x > {ready}; while :; do sleep 0.05; done"
    ended = child.run(["sh", "-c", script], timeout_s=20, stop=at_once(ready))
    assert (ended.output, ended.stopped) == (b"last words\n", "told")


def test_deaf_to_that_it_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE_S", 0.2)
    pids = tmp_path / "pids"
    script = f"trap '' INT; sleep 60 & echo $! $$ > {pids}; wait; sleep 60"
    ended = child.run(["sh", "-c", script], timeout_s=20, stop=at_once(pids))
    assert (ended.exit_code, ended.stopped) == (-signal.SIGKILL, "told")
    assert all(await_end(int(pid)) for pid in pids.read_text().split())


def test_its_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert child.run(["sleep", "60"], timeout_s=0.2).stopped == "timeout"


def test_so_is_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_OUTPUT", 10_000)
    assert child.run(["yes"], timeout_s=20).stopped == "output"


def test_an_exception_in_between_ends_it_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def interrupt(_elapsed_s: float) -> None:
        if pids.exists() and pids.read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.run(["sh", "-c", f"echo $$ > {pids}; sleep 60"], timeout_s=20, tick=interrupt)
    assert await_end(int(pids.read_text()))


def test_it_dies_with_us(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"from linkqual.net import child; child.run(['sh', '-c', 'echo $$ > {pids}; exec sleep 60'], 60)"
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        deadline = time.monotonic() + 10
        while not (pids.exists() and pids.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert alive(int(pids.read_text()))
        os.kill(parent.pid, signal.SIGKILL)
    assert await_end(int(pids.read_text()))


def test_a_program_that_is_missing_or_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostError) as caught:
        child.find("no-such-program")
    assert "install" in caught.value.hint
    monkeypatch.setattr(child, "bound", list)
    (tmp_path / "broken").write_text("x")
    with pytest.raises(HostError, match="cannot be started"):
        child.run([str(tmp_path / "broken")], timeout_s=1)
