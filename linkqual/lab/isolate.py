"""Run a function in mount, pid and net namespaces of its own, so that nothing it makes can outlive it. Floor 3.

Three processes:

    outer    the caller; forwards signals and waits
    guard    enters the new namespaces (an ordinary user: with a user namespace around them) and waits
    inner    process 1 of the pid namespace; runs the function

The guard dies with the outer process and the inner one with the guard (PR_SET_PDEATHSIG), also after kill -9. When process 1 of
a pid namespace is gone the kernel kills every process in it, and with the last of them go namespaces, links and tunnels.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from linkqual import errors
from linkqual.errors import HostError, LinkqualError

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x8, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGWINCH)
_ENDING = (signal.SIGTERM, signal.SIGHUP)  # those Python would die of without cleaning up

_libc = ctypes.CDLL(None, use_errno=True)

HINT = (
    "run it as root, or allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 "
    "(Ubuntu: also kernel.apparmor_restrict_unprivileged_userns=0)"
)


class Terminated(SystemExit):
    """Raised inside the isolation by SIGTERM and SIGHUP, so that everything is taken down in order; carries 128 + signal."""


def _call(name: str, *args: int | bytes | None) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces (`os.unshare` of Python 3.12). OSError when the kernel refuses."""
    _call("unshare", flags)


def setns(fd: int, kind: int = CLONE_NEWNET) -> None:
    """Move the calling thread into the namespace behind `fd` (`os.setns` of Python 3.12). OSError when the kernel refuses."""
    _call("setns", fd, kind)


def mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    """Mount `source` on `target`. OSError when the kernel refuses."""
    _call("mount", source.encode(), os.fsencode(target), kind.encode() or None, flags, None)


@dataclass(slots=True)
class Isolation:
    """A function running in its isolation, as seen from outside."""

    guard: int  # pids as this process sees them
    inner: int
    _report: int  # read end: an error of the function, as JSON

    def signal(self, number: int) -> None:
        """Pass a signal on to the function."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.inner, number)

    def wait(self) -> int:
        """Wait for the end; the function's exit code, or 128 + the signal that ended it. Raises the LinkqualError it raised."""
        _, status = os.waitpid(self.guard, 0)
        with os.fdopen(self._report, "rb") as report:
            said = report.read()
        if said:
            raise _revived(json.loads(said))
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code


def run_isolated(main: Callable[[], int], started: Callable[[Isolation], None] | None = None) -> int:
    """Run `main` in its isolation and return its exit code. `started` is called as soon as it runs.

    SIGINT reaches `main` as KeyboardInterrupt, SIGTERM and SIGHUP as `Terminated`; a LinkqualError it raises is raised here. HostError
    when this host can give no isolation. The calling process must have one thread.
    """
    running: list[Isolation] = []
    early: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if running:
            running[0].signal(number)
        else:
            early.append(number)

    with _handlers(forward):
        running.append(start(main))
        for number in early:
            running[0].signal(number)
        if started:
            started(running[0])
        return running[0].wait()


def start(main: Callable[[], int]) -> Isolation:
    """Start `main` in its isolation and return at once. HostError when this host can give none."""
    sys.stdout.flush()
    sys.stderr.flush()
    ready, say_ready = os.pipe()
    report, say_report = os.pipe()
    outer = os.getpid()
    guard = os.fork()
    if guard == 0:
        os.close(ready)
        os.close(report)
        _guard(main, outer, say_ready, say_report)
    os.close(say_ready)
    os.close(say_report)
    with os.fdopen(ready, "rb") as answer:
        inner = answer.read()
    if not inner:
        os.waitpid(guard, 0)
        with os.fdopen(report, "rb") as reason:
            said = json.loads(reason.read() or b"{}")
        raise _revived(said)
    return Isolation(guard, int(inner), report)


def available() -> str:
    """Why this host can give no isolation, in one sentence; empty when it can."""
    try:
        start(lambda: 0).wait()
    except HostError as error:
        return error.message
    return ""


@contextlib.contextmanager
def _handlers(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    deaf = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()  # under nohup it stays so
    before = {number: signal.signal(number, handler) for number in _FORWARDED if number not in deaf}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old if old is not None else signal.SIG_DFL)


def _revived(said: dict[str, str]) -> LinkqualError:
    kind = getattr(errors, said.get("kind", ""), HostError)
    error: LinkqualError = kind(said.get("message", "the isolated process died before it began"), said.get("hint", ""))
    return error


def _tell(fd: int, error: LinkqualError) -> None:
    words = {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps(words).encode()[:60_000])


def _die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent dies, and go at once when it already has."""
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(137)


def _enter_namespaces() -> None:
    """New mount, pid and net namespaces for the guard; with a user namespace around them where the rights are missing."""
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        with contextlib.suppress(OSError):
            return unshare(flags)
    try:
        unshare(CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
        return unshare(flags)
    except OSError as error:
        raise HostError(f"no namespaces for the virtual line: {error.strerror or error}", HINT) from error


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _guard(main: Callable[[], int], outer: int, say_ready: int, say_report: int) -> NoReturn:
    """The middle process: enter, fork the inner one, hand signals on, leave with its code."""
    code = 70
    try:
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        os.setpgid(0, 0)  # a Ctrl-C of the terminal reaches the outer process alone, which forwards it once
        _die_with(outer)
        _enter_namespaces()
        _die_with(outer)  # entering a user namespace may clear the setting
        alive, hold = os.pipe()
        inner = os.fork()
        if inner == 0:
            os.close(hold)
            os.close(say_ready)
            _inner(main, alive, say_report)
        os.close(say_report)
        os.write(say_ready, str(inner).encode())
        os.close(say_ready)
        os.write(hold, b"1")
        _, status = os.waitpid(inner, 0)
        code = os.waitstatus_to_exitcode(status)
        code = code if code >= 0 else 128 - code
    except LinkqualError as error:
        _tell(say_report, error)
    except Exception as error:
        _tell(say_report, HostError(f"no namespaces for the virtual line: {error}", HINT))
    finally:
        os._exit(code)


def _inner(main: Callable[[], int], alive: int, say_report: int) -> NoReturn:
    """Process 1 of the new pid namespace."""
    code = 70
    try:
        _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.read(alive, 1) != b"1":  # the guard died before the line above
            os._exit(137)
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in _ENDING:
            signal.signal(number, _terminate)
        try:
            mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        except OSError as error:
            raise HostError(
                f"the mounts of this host cannot be set apart: {error.strerror}",
                "in a chroot, make its root a mount point: mount --bind DIR DIR before chroot DIR",
            ) from error
        with contextlib.suppress(OSError):  # a container with a masked /proc: /proc/self still works there
            mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        with contextlib.suppress(
            OSError
        ):  # no such folder: the nodes then have no names for `ip netns`, only descriptors
            mount("linkqual", "/run/netns", "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        code = main()
    except LinkqualError as error:
        _tell(say_report, error)
        code = int(error.exit_code)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated(128 + number)
