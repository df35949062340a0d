"""The engine's own processes: how they are started, spoken to and ended. Floor 3.

The sender and the reflector run in processes of their own, so that a busy terminal or a JSON parse never delays a packet. The
parent writes JSON lines to the child's stdin; the child writes frames (kind, length, payload) to its stdout, never blocking.
A child ends when its stdin ends, so it cannot outlive its parent, and from its first moment leaves Ctrl-C to it: what is in
flight is still settled when a terminal interrupts the whole process group.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from linkqual.errors import HostError, InputError, LinkqualError, PeerError, UsageError
from linkqual.net import clock

Json = dict[str, Any]

READY, ANSWER, BITMAP, CHUNK, REPORT, ERROR = b"R", b"A", b"B", b"C", b"F", b"E"
_HEAD = struct.Struct("<cI")
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
_START_S = 30.0
_ANSWER_S = 30.0
_END_S = 5.0
_LEFT_TO_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ERRORS = {kind.__name__: kind for kind in (UsageError, InputError, HostError, PeerError)}


class ChildProcess:
    """The parent's end. `role`: one of `worker.ROLES`; `launcher`: a command to run it under, as ("ip", "netns", "exec", "a")."""

    def __init__(self, role: str, config: Json, launcher: Sequence[str] = ()) -> None:
        """Returns when the child is ready. Raises what it raised, or HostError when it died."""
        self.role = role
        bound = threading.current_thread() is threading.main_thread()  # else the death of a mere thread would end it
        command = [*launcher, sys.executable, "-P", "-m", "linkqual.net.worker", role, str(int(bound))]
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {"OPENBLAS_NUM_THREADS": "1"} | os.environ  # numpy's idle threads would only take time from ours
        environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, _LEFT_TO_PARENT
        )  # inherited: held off until `serve` ignores them
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                bufsize=0,
            )
        except OSError as error:
            raise HostError(f"cannot start the {role}: {error.strerror}", hint=f"check {command[0]}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._buffer = bytearray()
        self._closed = False
        self.tell(config)
        try:
            self.ready: Json = json.loads(self.expect(READY, _START_S))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the child (or of its launcher)."""
        return self._process.pid

    def tell(self, message: Json) -> None:
        """One JSON line; nothing happens when the child is gone (its frames end, which is how the caller learns it)."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def frame(self, timeout_s: float | None = None) -> tuple[bytes, bytearray] | None:
        """The next frame; None: the child ended. Raises HostError after `timeout_s`."""
        while True:
            if len(self._buffer) >= _HEAD.size:
                kind, length = _HEAD.unpack_from(self._buffer)
                end = _HEAD.size + length
                if len(self._buffer) >= end:
                    payload = self._buffer[_HEAD.size : end]
                    del self._buffer[:end]
                    return kind, payload
            if self._closed:
                return None
            if timeout_s is not None and not select.select([self._output], [], [], timeout_s)[0]:
                raise HostError(f"the {self.role} does not answer", hint="this host may be overloaded; try again")
            data = os.read(self._output, _PIPE_BYTES)
            if not data:
                return None
            self._buffer += data

    def expect(
        self, wanted: bytes, timeout_s: float = _ANSWER_S, chunk: Callable[[bytearray], None] | None = None
    ) -> bytearray:
        """The payload of the next frame, which must be of that kind. Raises what the child raised, or HostError.

        `chunk` takes the payloads of CHUNK frames on the way to it.
        """
        got = self.frame(timeout_s)
        while chunk is not None and got is not None and got[0] == CHUNK:
            chunk(got[1])
            got = self.frame(timeout_s)
        if got is None:
            raise HostError(
                f"the {self.role} ended: {self.last_words()}", hint="please report this with the line above"
            )
        kind, payload = got
        if kind == ERROR:
            self.raise_error(payload)
        if kind != wanted:
            raise HostError(f"the {self.role} answered {kind!r} instead of {wanted!r}", hint="please report this")
        return payload

    def raise_error(self, payload: bytes | bytearray) -> NoReturn:
        """What the child raised, raised again here."""
        said = json.loads(payload)
        raise _ERRORS.get(said["kind"], HostError)(said["message"], hint=said["hint"])

    def last_words(self) -> str:
        """The exit status and the last line on stderr of a child that ended by itself."""
        if self._closed:
            return "it was closed here"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        assert self._process.stderr is not None
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return f"exit status {self._process.poll()}" + (f", {lines[-1]}" if lines else "")

    def close(self) -> None:
        """End the child, kindly and then by force; idempotent."""
        process, self._closed = self._process, True
        with contextlib.suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


class Outbox:
    """The child's frames on their way to the parent; what a full pipe does not take waits in memory."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: deque[memoryview] = deque()
        self.backlog = 0  # octets waiting
        os.set_blocking(descriptor, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)

    def put(self, kind: bytes, payload: bytes) -> None:
        """Queue one frame and pass on what the pipe takes."""
        frame = _HEAD.pack(kind, len(payload)) + payload
        self._waiting.append(memoryview(frame))
        self.backlog += len(frame)
        self.flush()

    def put_json(self, kind: bytes, payload: Json) -> None:
        """Queue one frame of JSON."""
        self.put(kind, json.dumps(payload).encode())

    def flush(self) -> None:
        """Pass on what the pipe takes now. Raises BrokenPipeError when the parent is gone."""
        while self._waiting:
            try:
                taken = os.write(self._descriptor, self._waiting[0])
            except BlockingIOError:
                return
            self.backlog -= taken
            if taken == len(self._waiting[0]):
                self._waiting.popleft()
            else:
                self._waiting[0] = self._waiting[0][taken:]

    def drain(self) -> None:
        """Wait until everything is passed on."""
        while self._waiting:
            select.select([], [self._descriptor], [])
            self.flush()


class Inbox:
    """The parent's JSON lines, read without waiting."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ended = False  # the parent closed it or is gone
        self._buffer = b""
        os.set_blocking(descriptor, False)

    def take(self) -> list[Json]:
        """Whole lines that are there."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.descriptor, 65536)
            self.ended = self.ended or not data
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def first(self) -> Json:
        """Wait for the first line; SystemExit when the parent went away without one."""
        while not self.ended:
            select.select([self.descriptor], [], [])
            if lines := self.take():
                return lines[0]
        raise SystemExit(1)


def serve(drive: Callable[[Json, Inbox, Outbox], None], die_with_parent: bool) -> None:
    """The child's life: `drive(config, inbox, outbox)` until it returns; what it raises goes to the parent as a frame."""
    for number in _LEFT_TO_PARENT:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_PARENT)
    if die_with_parent:
        clock.die_with_parent()
    frames = os.dup(1)
    os.dup2(2, 1)  # nobody else may write between the frames
    inbox, outbox = Inbox(0), Outbox(frames)
    config = inbox.first()
    gc.freeze()
    gc.disable()  # a collection in the loop would delay packets; the loop makes no cycles
    try:
        drive(config, inbox, outbox)
        outbox.drain()
    except BrokenPipeError:
        raise SystemExit(1) from None
    except LinkqualError as error:
        outbox.put_json(ERROR, {"kind": type(error).__name__, "message": error.message, "hint": error.hint})
        outbox.drain()
        raise SystemExit(1) from None
