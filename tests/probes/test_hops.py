"""Hops asked beside a load, both ways, over the loopback: one hop, which answers at once."""

from __future__ import annotations

import itertools
import socket
import time
from dataclasses import replace
from typing import Any

import pytest

from linkqual.errors import PeerError
from linkqual.model import Direction, Step
from linkqual.net import hop_watch as net_watch
from linkqual.net.trace import trace
from linkqual.probes import hops, path
from linkqual.probes.bench import Bench
from linkqual.session import hop_watch


@pytest.mark.loopback
@pytest.mark.parametrize("end", ["far_end", "far_end_ipv6"])
def test_both_ends_ask(end: str, request: pytest.FixtureRequest) -> None:
    far_end = request.getfixturevalue(end)
    bench = far_end.bench()
    traced = path.measure(Step("path", "path", {"rounds": 1}), bench)
    bench = replace(bench, hops=hop_watch.known([traced]))
    for way in (Direction.FORWARD, Direction.REVERSE):
        for _ in range(20):  # other tests may have asked just now
            with hops.watching(bench, way, seconds=30) as watch:
                time.sleep(0.25)
                watch.spans.append(hop_watch.Span(10**11, 10**11, 10**12))
            found = watch.result("no load")
            assert found is not None
            if len(found.hops[0].idle_ns) > 1:
                break
        assert [(hop.ttl, hop.address, len(hop.idle_ns) >= 2) for hop in found.hops] == [(1, bench.peer_address, True)]
        assert "under load" in found.because


@pytest.mark.loopback
def test_two_watches_in_a_row_ask_no_hop_twice_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_watch, "ROUND_NS", 150_000_000)
    times = []
    for _ in range(2):
        watch = net_watch.HopWatch("127.0.0.7", 0, 33_500, (1,), source="127.0.0.6")
        for _ in range(500):
            if watch._asked:
                break
            time.sleep(0.01)
        asked, _ = watch.stop()
        times += [watch.began_ns + one.sent_ns for one in asked]
    assert len(times) >= 2
    assert all(later - before >= 150_000_000 for before, later in itertools.pairwise(times))


@pytest.mark.loopback
def test_a_watch_asks_no_hop_that_a_trace_has_asked_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_watch, "ROUND_NS", 400_000_000)
    trace("127.0.0.9", 0, 33_500, source="127.0.0.8", rounds=1)
    ended_ns = time.monotonic_ns()
    watch = net_watch.HopWatch("127.0.0.9", 0, 33_500, (1,), source="127.0.0.8")
    for _ in range(500):
        if watch._asked:
            break
        time.sleep(0.01)
    asked, _ = watch.stop()
    assert watch.began_ns + asked[0].sent_ns - ended_ns > 200_000_000


@pytest.mark.loopback
def test_the_far_port_answers_as_long_as_the_watch_and_a_minute_with_an_older_agent() -> None:
    asked: list[dict[str, Any]] = []

    class Older:
        def call(self, name: str, **arguments: Any) -> dict[str, Any]:
            asked.append(arguments)
            if "seconds" in arguments:
                raise PeerError(f"{name} has no argument 'seconds'")
            return {}

    known = hop_watch.Known(0, 33_500, (hop_watch.LoadedHop(1, "127.0.0.1", 1, (1000,)),))
    bench = Bench("127.0.0.1", "127.0.0.1", control=Older(), hops={Direction.FORWARD: known})  # type: ignore[arg-type]
    with hops.watching(bench, Direction.FORWARD, seconds=200.5) as watch:
        assert not watch.problem
    assert asked == [{"port": 33_500, "seconds": 201}, {"port": 33_500}]


def test_a_line_that_was_cut_is_no_policer() -> None:
    known = hop_watch.Known(1, 2, tuple(hop_watch.LoadedHop(k, f"10.0.{k}.1", 4, (1000,) * 4) for k in (1, 2)))
    asked = [hop_watch.Asked(k, at * 10**9) for at in range(10) for k in (1, 2)]
    watch = hops.Watching(
        Direction.FORWARD, known, asked=asked, ended_ns=20 * 10**9, spans=[hop_watch.Span(0, 0, 10**10)]
    )
    whole, cut = watch.result("a load"), watch.result("a load", cut=True)
    assert whole is not None
    assert cut is not None
    assert (whole.by, cut.by, cut.before) == ("loss", "", None)
    assert [hop.loaded_sent for hop in cut.hops] == [10, 10]


@pytest.mark.loopback
def test_without_a_trace_nothing_is_asked_and_a_taken_port_is_said(far_end: Any) -> None:
    with hops.watching(far_end.bench(), Direction.FORWARD, seconds=30) as watch:
        pass
    assert watch.result("a load") is None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        one = hop_watch.Known(other.getsockname()[1], 33_500, (hop_watch.LoadedHop(1, "127.0.0.1", 1, (1000,)),))
        bench = replace(far_end.bench(), hops={Direction.FORWARD: one})
        with hops.watching(bench, Direction.FORWARD, seconds=30) as watch:
            pass
    found = watch.result("a load")
    assert found is not None
    assert found.because == "the hops were not asked beside the load: this host: Address already in use"


@pytest.mark.loopback
def test_the_agent_refuses_what_makes_no_sense_and_is_free_again(far_end: Any) -> None:
    flow = {"source_port": 33_600, "destination_port": 40_000}
    for name, args in (("open", flow | {"ttls": [], "seconds": 1}), ("open", flow | {"ttls": [65], "seconds": 1}), ("open", flow | {"ttls": [1, 1], "seconds": 1}), ("close", {})):  # fmt: skip
        with pytest.raises(PeerError):
            far_end.control.call(f"hops.{name}", **args)
    for _ in range(2):  # the one before is ended
        assert far_end.control.call("hops.open", **flow, ttls=[1], seconds=5) == {}
    assert set(far_end.control.call("hops.close")) == {"addresses", "asked", "ended_ns"}
    assert far_end.control.call("hops.open", **flow, ttls=[1], seconds=5, tos=184) == {}


@pytest.mark.loopback
@pytest.mark.parametrize("kind", ["bad-request", "busy"])
def test_an_agent_that_knows_no_such_request_is_called_older(kind: str) -> None:
    class Older:
        def call(self, name: str, **arguments: Any) -> dict[str, Any]:
            assert "tos" not in arguments  # where none is needed, an agent that knows no such argument serves it too
            raise PeerError(f"far: there is no request {name!r}", "the near end is newer than this agent", kind)

    known = hop_watch.Known(33_500, 0, (hop_watch.LoadedHop(1, "127.0.0.1", 1, (1000,)),))
    bench = Bench("127.0.0.1", "127.0.0.1", control=Older(), hops={Direction.REVERSE: known})  # type: ignore[arg-type]
    with hops.watching(bench, Direction.REVERSE, seconds=5) as watch:
        pass
    older = "the far end's linkqual is older and asks no hops (update it)"
    assert (watch.problem == older) == (kind == "bad-request")
