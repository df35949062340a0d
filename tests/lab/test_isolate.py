from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from linkqual.errors import UsageError
from linkqual.lab.isolate import run_isolated
from linkqual.lab.line import load
from linkqual.lab.network import VirtualLine

from .isolated import as_ordinary_user, isolated, marked, namespaces, require_isolation, until

pytestmark = pytest.mark.lab

HOLD = """
import os, signal, sys
from linkqual.lab.isolate import run_isolated
from linkqual.lab.line import load
from linkqual.lab.network import VirtualLine
def main():
    with VirtualLine(load("long-return")) as virtual:
        virtual.popen(virtual.far, ["sleep", "1000"])
        print(os.stat("/proc/self/ns/net").st_ino, flush=True)
        while True:
            signal.pause()
try:
    sys.exit(run_isolated(main))
finally:
    print("outer is leaving", flush=True)
"""


@pytest.fixture(autouse=True)
def isolation() -> None:
    require_isolation()


def test_the_exit_code_is_handed_on() -> None:
    assert run_isolated(lambda: 0) == 0
    assert run_isolated(lambda: 3) == 3


def test_an_error_is_raised_outside() -> None:
    def main() -> int:
        raise UsageError("not like this", "like that")

    with pytest.raises(UsageError, match="not like this") as caught:
        run_isolated(main)
    assert caught.value.hint == "like that"


def test_inside_is_a_world_of_its_own() -> None:
    seen = isolated(
        lambda: {
            "pid": os.getpid(),
            "uid": os.geteuid(),
            "interfaces": [
                line.split(":")[0].strip() for line in Path("/proc/self/net/dev").read_text().splitlines()[2:]
            ],
            "net": os.stat("/proc/self/ns/net").st_ino,
        }
    )
    assert seen["pid"] == 1
    assert seen["uid"] == 0
    assert seen["interfaces"] == ["lo"]
    assert seen["net"] != os.stat("/proc/self/ns/net").st_ino


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_nothing_is_left_after_a_signal(number: signal.Signals, code: int) -> None:
    mark = f"LINKQUAL_MARK={uuid.uuid4()}"
    environment = {**os.environ, mark.split("=", maxsplit=1)[0]: mark.split("=")[1]}
    outer = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert outer.stdout
        net = int(outer.stdout.readline())
        assert net in namespaces()
        until(lambda: len(marked(mark)) >= 6, "outer, guard, inner, two pumps and a sleeping program")
        outer.send_signal(number)
        assert outer.wait() == code
        until(lambda: not marked(mark), "the end of every process")
        assert net not in namespaces()
        assert ("outer is leaving" in outer.stdout.read()) == (number != signal.SIGKILL)
        outer.stdout.close()
    finally:
        outer.kill()  # whatever failed above: nothing stays behind
        outer.wait()


def test_an_ordinary_user_can_do_it() -> None:
    if (
        not Path("/proc/sys/user/max_user_namespaces").exists()
        or Path("/proc/sys/user/max_user_namespaces").read_text() == "0\n"
    ):
        pytest.skip("user namespaces are off on this host")

    line = load("clean")  # while the files can be read

    def inner() -> int:
        with VirtualLine(line) as virtual:
            there = virtual.popen(
                virtual.near, ["ping", "-c", "2", "-i", "0.2", "-q", virtual.address(virtual.far)], stdout=-3
            )
            back = virtual.popen(
                virtual.far, ["ping", "-c", "2", "-i", "0.2", "-q", virtual.address(virtual.near, 6)], stdout=-3
            )
            assert there.wait() == back.wait() == 0
            truth = virtual.truth()
        return (
            0
            if truth["forward"]["icmp"] == truth["reverse"]["icmp"] == {"seen": 4, "dropped": 0, "duplicated": 0}
            else 1
        )

    assert as_ordinary_user(lambda: run_isolated(inner)) == 0
