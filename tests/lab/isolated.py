"""What the lab tests share: run a function in the isolation and get back what it returns; see what is left of it."""

from __future__ import annotations

import ctypes
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linkqual.lab.isolate import available, run_isolated


def require_isolation() -> None:
    if reason := available():
        pytest.skip(reason)


def isolated(function: Callable[[], Any]) -> Any:
    """What `function` returns in an isolation of its own (as JSON can carry it)."""
    hear, say = os.pipe()

    def main() -> int:
        answer = json.dumps(function()).encode()
        assert len(answer) < 60_000
        os.write(say, answer)
        return 0

    code = run_isolated(main)
    os.close(say)
    with os.fdopen(hear, "rb") as answer:
        said = answer.read()
    assert code == 0, "the function failed; its traceback is above"
    return json.loads(said)


def as_ordinary_user(main: Callable[[], int]) -> int:
    """Run `main` in a child process that has given up root (if it had it) for good; its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/self is its own again
            code = main()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def marked(mark: str) -> list[int]:
    """Processes that carry `mark` as an environment variable, wherever they are."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def namespaces() -> set[int]:
    """Inodes of every network namespace that a process of this host lives in."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found.add((folder / "ns" / "net").stat().st_ino)
            except OSError:
                continue
    return found


def until(state: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait for a state; fails when it does not come."""
    end = time.monotonic() + seconds
    while not state():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.01)
