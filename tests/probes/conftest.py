"""An agent in a process of its own, so that it can be killed, and a bench that remembers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
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


@dataclass
class FarEnd:
    """A running agent and a control connection to it; `raw` and `told` are what a probe kept and said."""

    process: subprocess.Popen[str]
    control: Control
    raw: dict[str, str | bytes] = field(default_factory=dict)
    told: list[Progress] = field(default_factory=list)

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


def _far_end(address: str, max_bytes: int = 10**13) -> Iterator[FarEnd]:
    command = [sys.executable, "-c", SCRIPT, address, str(max_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            with Control.connect(Peer.parse(process.stdout.readline())) as control:
                yield FarEnd(process, control)
        finally:
            process.kill()


@pytest.fixture
def far_end() -> Iterator[FarEnd]:
    yield from _far_end("127.0.0.1")


@pytest.fixture
def far_end_ipv6() -> Iterator[FarEnd]:
    yield from _far_end("::1")


@pytest.fixture
def capped_far_end() -> Iterator[FarEnd]:
    yield from _far_end("127.0.0.1", 1_000_000)
