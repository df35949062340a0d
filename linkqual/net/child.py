"""Other people's programs (iperf3, ping) run as children that cannot outlive us. Floor 3.

Each gets a process group of its own, nothing to read, a plain locale, and dies with its parent (PR_SET_PDEATHSIG, set by
`setpriv` of util-linux where that is installed, so that no code of ours runs between fork and exec).
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from linkqual.errors import HostError

TICK_S = 0.05  # how often a running child's stop condition is looked at
GRACE_S = 2.0  # between asking a child to end and killing it
MAX_OUTPUT = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Ended:
    """What a child left behind. `stopped`: why we ended it ("" when it ended by itself)."""

    exit_code: int  # negative: the signal that ended it
    output: bytes
    errors: bytes
    stopped: str = ""


def find(program: str) -> str:
    """Its path. HostError when it is not installed."""
    path = shutil.which(program)
    if path is None:
        raise HostError(f"{program} is not installed on this host", install_hint(program))
    return path


def install_hint(program: str) -> str:
    """What to type to get a program that is missing."""
    package = {"ping": "iputils-ping"}.get(program, program)
    return f"install it: apt-get install {package} (or your system's package of that name)"


def bound(command: Sequence[str]) -> list[str]:
    """The same command, ended by the kernel when the thread that starts it ends."""
    wrapper = _setpriv()
    return [wrapper, "--pdeathsig", "KILL", "--", *command] if wrapper else list(command)


def environment() -> dict[str, str]:
    """Ours, but with English messages, a decimal point and UTC."""
    return os.environ | {"LC_ALL": "C", "LANG": "C", "TZ": "UTC"}


def run(
    command: Sequence[str],
    timeout_s: float,
    stop: Callable[[], str] = lambda: "",
    tick: Callable[[float], None] = lambda _elapsed_s: None,
    look: Callable[[int], None] = lambda _process: None,
) -> Ended:
    """Run to the end, or until `stop` gives a reason or the time is over: then SIGINT, and SIGKILL two seconds later.

    `tick` is told the seconds since the start about twenty times a second, `look` the number of the process. Whatever happens,
    the group is gone afterwards.
    """
    try:
        child = subprocess.Popen(
            bound(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            process_group=0,
        )
    except OSError as error:
        raise HostError(f"{command[0]} cannot be started: {error.strerror}", "check its installation") from None
    try:

        def both(elapsed_s: float) -> None:
            look(child.pid)
            tick(elapsed_s)

        return _attend(child, timeout_s, stop, both)
    finally:
        kill_group(child.pid, signal.SIGKILL)
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def kill_group(group: int, number: signal.Signals) -> None:
    """Signal every process of a group; nothing happens when it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _attend(
    child: subprocess.Popen[bytes], timeout_s: float, stop: Callable[[], str], tick: Callable[[float], None]
) -> Ended:
    assert child.stdout is not None
    assert child.stderr is not None
    taken = {child.stdout: bytearray(), child.stderr: bytearray()}
    begun = time.monotonic()
    stopped, kill_at = "", float("inf")
    with selectors.DefaultSelector() as selector:
        for pipe, into in taken.items():
            selector.register(pipe, selectors.EVENT_READ, into)
        while selector.get_map():
            for key, _ in selector.select(TICK_S):
                data = os.read(key.fd, 65536)
                key.data.extend(data)
                if not data:
                    selector.unregister(key.fileobj)
            now = time.monotonic()
            tick(now - begun)
            if not stopped:
                too_much = sum(map(len, taken.values())) > MAX_OUTPUT
                stopped = stop() or ("timeout" if now - begun > timeout_s else "output" if too_much else "")
                if stopped:
                    kill_group(child.pid, signal.SIGINT)
                    kill_at = now + GRACE_S
            elif now > kill_at:
                kill_group(child.pid, signal.SIGKILL)
                kill_at = float("inf")
    try:
        child.wait(GRACE_S)  # both pipes are closed: it has ended or is about to
    except subprocess.TimeoutExpired:
        kill_group(child.pid, signal.SIGKILL)
        child.wait()
    return Ended(child.returncode, bytes(taken[child.stdout]), bytes(taken[child.stderr]), stopped)


@functools.cache
def _setpriv() -> str | None:
    return shutil.which("setpriv")
