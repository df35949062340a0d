"""A real agent on loopback, in a thread of the test, and one in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from linkqual.agent.config import AgentConfig
from linkqual.agent.server import serve
from linkqual.wire.pairing import Peer

TOKEN = "a token for tests"


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    """Await a state; True as soon as it is there."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@dataclass
class RunningAgent:
    peer: Peer
    lines: list[str]
    _loop: asyncio.AbstractEventLoop
    _stop: asyncio.Event
    _thread: threading.Thread

    def logged(self, text: str, seconds: float = 10.0) -> bool:
        return wait_for(lambda: any(text in line for line in list(self.lines)), seconds)

    def eventually(self, condition: Callable[[], object]) -> bool:
        return wait_for(condition)

    def end(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(20)
        assert not self._thread.is_alive()


def begin(config: AgentConfig) -> RunningAgent:
    known = threading.Event()
    found: dict[str, Any] = {}
    lines: list[str] = []

    async def main() -> None:
        found["loop"], found["stop"] = asyncio.get_running_loop(), asyncio.Event()

        def ready(peer: Peer) -> None:
            found["peer"] = peer
            known.set()

        await serve(config, lines.append, ready, found["stop"])

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert known.wait(20)
    return RunningAgent(found["peer"], lines, found["loop"], found["stop"], thread)


@pytest.fixture
def start_agent() -> Iterator[Callable[..., RunningAgent]]:
    """Start an agent with these settings; all end with the test."""
    running: list[RunningAgent] = []

    def start(**settings: Any) -> RunningAgent:
        fixed = {"bind_address": "127.0.0.1", "port": 0, "ephemeral": True, "token": TOKEN, "refusal_s": 0.05}
        running.append(begin(AgentConfig(**(fixed | settings))))
        return running[-1]

    yield start
    for agent in running:
        agent.end()


@pytest.fixture
def agent(start_agent: Callable[..., RunningAgent]) -> RunningAgent:
    return start_agent()


@dataclass
class AgentProcess:
    process: subprocess.Popen[str]
    peer: Peer

    def children(self) -> set[int]:
        return descendants(self.process.pid)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for task in _children(pid):
        found |= {task} | descendants(task)
    return found


def _children(pid: int) -> set[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        lists = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in tasks]
    except OSError:
        return set()
    return {int(child) for text in lists for child in text.split()}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


SCRIPT = """
import sys
from linkqual.agent.config import AgentConfig
from linkqual.agent.server import run
run(AgentConfig(bind_address="127.0.0.1", port=0, ephemeral=True, token=sys.argv[1]),
    ready=lambda peer: print(peer.line, flush=True))
"""


@pytest.fixture
def agent_process() -> Iterator[AgentProcess]:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, TOKEN], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield AgentProcess(process, Peer.parse(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
