"""An agent in a process of its own, so that it can be killed, and a bench that remembers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from linkqual.net.control import Control
from linkqual.probes.bench import Bench, Progress
from linkqual.wire.pairing import Peer

SCRIPT = """
import sys
from linkqual.agent.config import AgentConfig, Caps
from linkqual.agent.server import run
run(AgentConfig(bind_address=sys.argv[1], port=0, ephemeral=True, caps=Caps(max_bytes=int(sys.argv[2]))),
    ready=lambda peer: print(peer.line, flush=True))
"""


class Agent:
    """It serves one test after the other; what a near end left, it ends. A test that asks for its process means to harm it."""

    def __init__(self, address: str, max_bytes: int) -> None:
        command = [sys.executable, "-c", SCRIPT, address, str(max_bytes)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.peer = Peer.parse(self._process.stdout.readline())
        self.spent = False

    @property
    def process(self) -> subprocess.Popen[str]:
        self.spent = True
        return self._process

    def end(self) -> None:
        with self._process:
            self._process.kill()


class Agents:
    """Those that run, one for each address and cap."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], Agent] = {}

    @contextmanager
    def serving(self, address: str, max_bytes: int) -> Iterator[Agent]:
        agent = self._running.get((address, max_bytes)) or Agent(address, max_bytes)
        self._running[address, max_bytes] = agent
        try:
            yield agent
        finally:
            if agent.spent:
                self._running.pop((address, max_bytes)).end()

    def end(self) -> None:
        for agent in self._running.values():
            agent.end()


@dataclass
class FarEnd:
    """A running agent and a control connection to it; `raw` and `told` are what a probe kept and said."""

    agent: Agent
    control: Control
    raw: dict[str, str | bytes] = field(default_factory=dict)
    told: list[Progress] = field(default_factory=list)

    @property
    def process(self) -> subprocess.Popen[str]:
        return self.agent.process

    def bench(self, **more: Any) -> Bench:
        return Bench(
            peer_address=self.control.peer_address,
            near_address=self.control.near_address,
            family=socket.AF_INET6 if ":" in self.control.peer_address else socket.AF_INET,
            control=self.control,
            save_raw=self.raw.__setitem__,
            progress=self.told.append,
            **more,
        )


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    running = Agents()
    try:
        yield running
    finally:
        running.end()


def _far_end(agents: Agents, address: str, max_bytes: int = 10**13) -> Iterator[FarEnd]:
    with agents.serving(address, max_bytes) as agent, Control.connect(agent.peer) as control:
        yield FarEnd(agent, control)


@pytest.fixture
def far_end(agents: Agents) -> Iterator[FarEnd]:
    yield from _far_end(agents, "127.0.0.1")


@pytest.fixture
def far_end_ipv6(agents: Agents) -> Iterator[FarEnd]:
    yield from _far_end(agents, "::1")


@pytest.fixture
def capped_far_end(agents: Agents) -> Iterator[FarEnd]:
    yield from _far_end(agents, "127.0.0.1", 1_000_000)
