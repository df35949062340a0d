"""The agent's trace toward this end: what ends it, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from linkqual.errors import PeerError, WireError
from linkqual.model import Hop, Trace
from linkqual.probes import far_trace, path
from linkqual.probes.bench import Bench
from linkqual.wire import trace_json

MADE = Trace("10.9.0.1", "10.0.0.1", 33_434, 40_000, (Hop(1, "10.0.0.1", (5,), 1, 1, reached=True),))


class Agent:
    """Answers after a glance or two of the near end; who is hurried does not wait, as with a real channel."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: dict[str, Any] = {}

    def call(self, name: str, hurried: Callable[[], object] = bool, **args: Any) -> Any:
        assert name == "trace"
        self.asked = args
        if hurried() or self.answer is None:
            raise PeerError(f"no answer to {name} within 3 s")
        return self.answer


def bench(agent: Agent | None, *, interrupted: bool = False) -> Bench:
    return Bench("10.9.0.1", control=agent, interrupted=lambda: interrupted)  # type: ignore[arg-type]


def test_only_what_is_not_usual_is_asked_for_so_older_agents_serve_it() -> None:
    agent = Agent(trace_json.encode(MADE))
    assert far_trace.ask(bench(agent), 33_434, 40_000, max_hops=30, rounds=1) == MADE
    assert agent.asked == {"source_port": 33_434, "destination_port": 40_000, "max_hops": 30, "rounds": 1}
    far_trace.ask(bench(agent), 33_434, 40_000, max_hops=30, rounds=1, tos=184)
    assert agent.asked["tos"] == 184


def test_an_interruption_gives_the_trace_up_and_says_so() -> None:
    with pytest.raises(PeerError) as caught:
        far_trace.ask(bench(Agent(trace_json.encode(MADE)), interrupted=True), 33_434, 40_000, max_hops=64, rounds=3)
    assert caught.value.kind == "interrupted"
    with pytest.raises(PeerError) as caught:
        far_trace.ask(bench(Agent(None)), 33_434, 40_000, max_hops=30, rounds=1)
    assert caught.value.kind == "peer-lost"


def test_without_an_agent_or_with_nonsense_it_is_told() -> None:
    with pytest.raises(PeerError, match="no agent"):
        far_trace.ask(bench(None), 1, 2, max_hops=30, rounds=1)
    with pytest.raises(WireError):
        far_trace.ask(bench(Agent({"hops": 3})), 1, 2, max_hops=30, rounds=1)


@pytest.mark.loopback
def test_what_the_trace_from_here_found_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interruption comes while the agent traces."""
    agent, over = Agent(trace_json.encode(MADE)), [False]

    def call(name: str, hurried: Callable[[], object] = bool, **args: Any) -> Any:
        if name == "trace.target":
            return {"port": 33_434}
        over[0] = True
        return agent.call(name, hurried, **args)

    class Channel:
        lost = staticmethod(lambda: "")

    channel = Channel()
    channel.call = call  # type: ignore[attr-defined]
    found = path.measure(
        path.Step("path", "path", {"rounds": 1}),
        Bench("127.0.0.1", "127.0.0.1", control=channel, interrupted=lambda: over[0]),  # type: ignore[arg-type]
    )
    assert found.fault is not None
    assert found.fault.kind == "interrupted"
    assert found.path is not None
    assert found.path.forward.hops
