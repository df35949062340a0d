"""Labs that stay: `up` leaves a line running for a user's own trials, `execute` runs a program in one of its nodes, `down` ends it.

A lab is held by a background process in the line's own isolation: when that process is killed, the lab is gone. What is
left then is a small state file, which the next call of anything here removes. Floor 3.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from linkqual.errors import HostError, LinkqualError, UsageError
from linkqual.lab.description import Line
from linkqual.lab.isolate import Isolation, run_isolated
from linkqual.lab.network import VirtualLine

_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Session:
    """A running lab. Pids as the host sees them; `nodes` maps each node to the descriptor of its namespace in process `inner`."""

    name: str
    line: str
    title: str
    started_ns: int
    near: str
    far: str
    nodes: dict[str, int]
    addresses: dict[str, list[str]]  # node -> [IPv4, IPv6]
    holder: int = 0
    holder_ticks: int = 0  # its start time: a pid alone may be someone else's by now
    inner: int = 0


def up(line: Line, name: str = "") -> Session:
    """Build `line` and leave it running under `name` (default: the line's). UsageError when it runs already; HostError."""
    name = name or line.name
    if name in {session.name for session in running()}:
        raise UsageError(f"the lab {name!r} is already up", f"linkqual lab down {name}")
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hear)
        _detach(line, name, say)
    os.close(say)
    os.waitpid(child, 0)
    with os.fdopen(hear, "rb") as answer:
        said = json.loads(answer.readline() or b'{"error": "the background process died", "hint": "try again"}')
    if "error" in said:
        raise HostError(said["error"], said["hint"])
    return Session(**said)


def running() -> tuple[Session, ...]:
    """The labs that are up, by name. State files of dead ones are removed."""
    found = []
    for path in sorted(_folder().glob("*.json")):
        try:
            session = Session(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            session = None
        if session and session.holder_ticks and _ticks(session.holder) == session.holder_ticks:
            found.append(session)
        else:
            path.unlink(missing_ok=True)
    return tuple(found)


def find(name: str = "") -> Session:
    """The lab of that name; without one, the only lab there is. UsageError."""
    sessions = running()
    for session in sessions:
        if session.name == name or (not name and len(sessions) == 1):
            return session
    up_now = ", ".join(session.name for session in sessions)
    said = f"no lab is called {name!r}" if name else f"{len(sessions)} labs are up" if sessions else "no lab is up"
    raise UsageError(said, f"one of {up_now}" if up_now else "linkqual lab up")


def execute(name: str, node: str, argv: Sequence[str]) -> int:
    """Run a program in a node with this terminal attached; its exit code (127: not found). UsageError, HostError."""
    session = find(name)
    if node not in session.nodes:
        raise UsageError(f"the lab {session.name!r} has no node {node!r}", f"one of {', '.join(session.nodes)}")
    if not argv:
        raise UsageError(
            "no program is named", f"linkqual lab exec {node} -- ping -c 3 {session.addresses[session.far][0]}"
        )
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)  # a Ctrl-C is the program's
    try:
        return subprocess.call(entering(session, node) + list(argv))
    except FileNotFoundError:
        raise HostError("the program 'nsenter' is missing", "apt-get install util-linux") from None
    finally:
        signal.signal(signal.SIGINT, before)


def entering(session: Session, node: str) -> list[str]:
    """The beginning of a command line that runs what follows inside a node."""
    process = f"/proc/{session.inner}"
    own = os.stat("/proc/self/ns/user").st_ino == os.stat(f"{process}/ns/user").st_ino
    user = [] if own else ["--user", "--preserve-credentials"]
    return [
        *(
            "nsenter",
            f"--target={session.inner}",
            *user,
            "--mount",
            "--pid",
            f"--net={process}/fd/{session.nodes[node]}",
        ),
        *(f"--wd={os.getcwd()}", "--"),
    ]


def down(name: str = "") -> Session:
    """End a lab and wait until nothing of it is left; what it was. UsageError when there is none of that name."""
    session = find(name)
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(session.holder)
        try:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
            if not select.select([handle], (), (), _PATIENCE_S)[0]:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], (), (), _PATIENCE_S)
        finally:
            os.close(handle)
    _path(session.name).unlink(missing_ok=True)
    return session


# ---- the background process


def _detach(line: Line, name: str, say: int) -> NoReturn:
    """Leave the caller's terminal and process group, then hold the lab."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        os.chdir("/")
        _hold(line, name, say)
    finally:
        os._exit(1)


def _hold(line: Line, name: str, say: int) -> None:
    hear, tell = os.pipe()

    def inside() -> int:
        os.close(hear)
        with VirtualLine(line) as virtual:
            versions = (4, 6)
            session = Session(
                *(name, line.name, line.title, time.time_ns(), line.near, line.far),
                nodes={node: space.fd for node, space in virtual.spaces.items()},
                addresses={node: [virtual.address(node, version) for version in versions] for node in virtual.spaces},
            )
            os.write(tell, json.dumps(asdict(session)).encode() + b"\n")
            os.close(tell)
            while True:
                signal.pause()  # until SIGTERM, which raises

    def started(isolation: Isolation) -> None:
        os.close(tell)
        with os.fdopen(hear, "rb") as answer:
            said = answer.readline()  # a line, not the end: the guard holds the pipe open as well
        if not said:  # it failed: waiting for it raises the reason
            return
        state = {
            **json.loads(said),
            "holder": os.getpid(),
            "holder_ticks": _ticks(os.getpid()),
            "inner": isolation.inner,
        }
        _write(_path(name), json.dumps(state))
        os.write(say, json.dumps(state).encode() + b"\n")
        os.close(say)

    try:
        run_isolated(inside, started)
    except LinkqualError as error:
        os.write(say, json.dumps({"error": error.message, "hint": error.hint}).encode())
    finally:
        with contextlib.suppress(OSError):
            _path(name).unlink()


# ---- state files


def _folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    home = Path(runtime) if runtime and os.access(runtime, os.W_OK) else Path.home() / ".cache"
    folder = home / "linkqual" / "lab"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"no place for the lab's state: {folder}: {error.strerror}", "set XDG_RUNTIME_DIR to a folder of yours"
        ) from None
    return folder


def _path(name: str) -> Path:
    return _folder() / f"{quote(name, safe='')[:200]}.json"


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, "utf-8")
    new.replace(path)


def _ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0: there is none (or only its remains)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])
