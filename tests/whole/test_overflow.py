"""Hosts that drop packets themselves, with real packets: the line stays innocent, and when it does lose, it alone is charged."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from linkqual import plan as planner
from linkqual import profile, profiles, runner, store
from linkqual.agent.config import AgentConfig
from linkqual.lab.netns import Namespace
from linkqual.model import Direction, Link, Measurement, Objective, Outcome, Verdict
from linkqual.net.control import Control
from linkqual.net.reflector import Reflector
from linkqual.net.sender import Sender
from linkqual.probes.bench import Bench
from linkqual.rules.ledger import ledger
from linkqual.stats.pacing import longest

from ..agent.conftest import RunningAgent, begin

pytestmark = [
    pytest.mark.lab,
    pytest.mark.quiet,
    pytest.mark.skipif(os.geteuid() != 0, reason="moves threads into network namespaces: needs root"),
]
MS = 1_000_000
NEAR, FAR = "10.94.0.1", "10.94.0.2"
LOSS = tuple(Objective("loss_ratio", "ratio", way, 1e-3) for way in (Direction.FORWARD, Direction.REVERSE))
TWO = ("near", "far")


@dataclass
class Hosts:
    """Two namespaces with a veth pair between them; an agent runs in the far one."""

    spaces: dict[str, Namespace]
    agent: RunningAgent
    folder: Path
    senders: list[Sender] = field(default_factory=list)
    reflectors: list[Reflector] = field(default_factory=list)

    def run(self, where: str, words: str, script: str = "") -> str:
        return self.spaces[where].run(words.split(), script)

    @contextmanager
    def policed(self, where: str, rule: str) -> Iterator[None]:
        """Probes that meet this rule are lost on arrival; no host counts them: the line did it."""
        table = (
            f"add table inet t\nadd chain inet t c {{ type filter hook input priority 0; }}\nadd rule inet t c {rule}\n"
        )
        self.run(where, "nft -f -", table)
        try:
            yield
        finally:
            self.run(where, "nft delete table inet t")

    @contextmanager
    def shaped(self, where: str) -> Iterator[None]:
        """A send queue that is full after a few packets."""
        self.run(where, f"tc qdisc add dev {where} root tbf rate 4mbit burst 2000 limit 3000")
        try:
            yield
        finally:
            self.run(where, f"tc qdisc del dev {where} root")

    def measure(
        self, rate: int, packets: int, meddle: Callable[[], None] | None = None, max_burst: int = 100_000
    ) -> tuple[Measurement, Verdict]:
        """As `linkqual test --only stamp` would; `meddle` runs beside it once packets flow.

        `max_burst`: the machine of the tests may be slow at any time, which is doubt of its own.
        """
        given = planner.PlanOptions(rate_pps=rate, packets=packets, only=("stamp",))
        plan = planner.make(profile.parse(profiles.text("training"), "training"), Link(), given)
        (step,) = plan.steps
        params = {"fixed": True, "timeout_ns": 300 * MS, "window": 100_000, "max_burst": max_burst}
        step = replace(step, params=step.params | params)
        plan = replace(plan, steps=(step,), objectives=LOSS)
        request = runner.Request(profile.parse(profiles.text("training"), "training"), plan, FAR)
        with self.spaces["near"].inside(), Control.connect(self.agent.peer) as control:
            bench = Bench(FAR, NEAR, control=control, objectives=LOSS, family_size=2)
            beside = threading.Thread(target=self._beside, args=(meddle,))
            beside.start()
            done = runner.qualify(
                request, bench, store.Run(self.folder / str(time.monotonic_ns())), interrupted=lambda: ""
            )
            beside.join()
        assert done.verdict is not None
        (measured,) = done.measurements
        assert measured.fault is None
        assert measured.stamp is not None
        return measured, done.verdict

    def _beside(self, meddle: Callable[[], None] | None) -> None:
        deadline = time.monotonic() + 20
        while meddle and time.monotonic() < deadline:
            if self.senders and self.senders[-1].sent > 100:
                meddle()
                return
            time.sleep(0.005)

    def stop(self, which: Callable[[], int], seconds: float) -> Callable[[], None]:
        def meddle() -> None:
            os.kill(which(), signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(which(), signal.SIGCONT)

        return meddle


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with ExitStack() as stack:
        spaces = {where: Namespace(where) for where in TWO}
        for space in spaces.values():
            stack.callback(space.close)
        far = f"/proc/self/fd/{spaces['far'].fd}"
        spaces["near"].run(
            f"ip link add near type veth peer name far netns {far}".split(), pass_fds=(spaces["far"].fd,)
        )
        for where, address in (("near", NEAR), ("far", FAR)):
            for words in (f"address add {address}/24 dev {where}", f"link set {where} up", "link set lo up"):
                spaces[where].run(["ip", *words.split()])
        with spaces["far"].inside():
            agent = begin(AgentConfig(bind_address=FAR, port=0, name=FAR, ephemeral=True, token="a token for tests"))
        stack.callback(agent.end)
        yield Hosts(spaces, agent, tmp_path_factory.mktemp("overflow"))


@pytest.fixture
def hosts(made: Hosts, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """With every engine process it starts remembered, and room in the sockets as it is by default."""
    return with_buffers(made, monkeypatch)


def with_buffers(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, near: int | None = None, far: int | None = None
) -> Hosts:
    hosts.senders.clear()
    hosts.reflectors.clear()
    for kind, kept, size in ((Sender, hosts.senders, near), (Reflector, hosts.reflectors, far)):
        monkeypatch.setattr(kind, "start", _started(kind.start, kept, size))
    return hosts


def _started(start: Callable[..., Any], kept: list[Any], size: int | None) -> Callable[..., Any]:
    def begin_(config: Any, *more: Any) -> Any:
        kept.append(start(replace(config, receive_buffer_bytes=size) if size else config, *more))
        return kept[-1]

    return begin_


def addresses(measured: Measurement) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in ledger(measured):
        found[str(entry.address)] = found.get(str(entry.address), 0) + entry.packets
    assert measured.stamp is not None
    assert sum(found.values()) == measured.stamp.summary.sent - measured.stamp.summary.received
    return found


def outcomes(verdict: Verdict) -> list[Outcome]:
    return [finding.outcome for finding in verdict.findings]


def test_a_far_socket_without_room(made: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = with_buffers(made, monkeypatch, far=2_304)
    measured, verdict = hosts.measure(20_000, 4_000)
    assert set(addresses(measured)) <= {"far host", "not attributed"}  # the latter: before it knew its peer
    assert measured.conditions.far.drops["socket_drops"] == addresses(measured)["far host"]
    assert measured.conditions.far.drops["drops_before_peer"] == addresses(measured).get("not attributed", 0)
    assert outcomes(verdict) == [Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE]
    assert "dropped by the far end's receive socket" in verdict.findings[0].because
    assert "rmem_max" in verdict.findings[0].decide
    assert {"socket_drops", "UdpRcvbufErrors"} <= {name for _, name, _ in measured.conditions.far.drop_times}


def test_a_near_socket_without_room(made: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = with_buffers(made, monkeypatch, near=2_304)
    measured, verdict = hosts.measure(20_000, 4_000)
    assert set(addresses(measured)) == {"near host"}
    assert measured.conditions.near.drops["UdpRcvbufErrors"] >= addresses(measured)["near host"] > 0
    assert outcomes(verdict)[1] is Outcome.INCONCLUSIVE
    assert "dropped by the near end's receive socket" in verdict.findings[1].because


def test_a_reflector_that_stands_still(made: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = with_buffers(made, monkeypatch, far=100_000)
    measured, verdict = hosts.measure(20_000, 10_000, hosts.stop(lambda: hosts.reflectors[-1].pid, 0.15))
    assert set(addresses(measured)) == {"far host"}
    assert Outcome.FAIL not in outcomes(verdict)


def test_a_reflector_that_stands_still_for_longer_than_the_timeout(hosts: Hosts) -> None:
    measured, verdict = hosts.measure(2_000, 3_000, hosts.stop(lambda: hosts.reflectors[-1].pid, 0.8))
    assert set(addresses(measured)) == {"far host"}
    assert Outcome.FAIL not in outcomes(verdict)


def test_a_sender_that_stands_still_on_a_line_that_bears_no_burst(hosts: Hosts) -> None:
    """What the policer of the line drops, it drops of the burst that followed."""
    with hosts.policed("far", "udp length 72 limit rate over 2000/second burst 20 packets drop"):
        measured, verdict = hosts.measure(1_000, 1_200, hosts.stop(lambda: hosts.senders[-1].pid, 0.25), 64)
    assert measured.stamp is not None
    pacing = measured.stamp.summary.pacing
    assert longest(pacing).packets > pacing.most == 64
    assert addresses(measured)["not attributed"] == pacing.lost_forward > 100
    assert outcomes(verdict) == [Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE]
    assert "bursts of more than 64 packets" in verdict.findings[0].because
    assert "stood still and caught up" in "".join(note.sentence for note in verdict.notes)


def test_a_full_send_queue_loses_nothing(hosts: Hosts) -> None:
    with hosts.shaped("near"):
        measured, verdict = hosts.measure(20_000, 4_000)
    assert measured.stamp is not None
    near = measured.conditions.near
    assert measured.stamp.summary.unsent == near.counters["unsent"] > 0
    assert near.counters["refusals"] >= near.counters["queue_refusals"] > 0
    assert near.drops["near:qdisc_drops"] >= near.counters["unsent"]
    assert addresses(measured) == {}
    assert Outcome.FAIL not in outcomes(verdict)
    assert "never left this host" in "".join(note.sentence for note in verdict.notes)


def test_a_full_send_queue_of_the_far_end_is_the_far_hosts(hosts: Hosts) -> None:
    with hosts.shaped("far"):
        measured, verdict = hosts.measure(20_000, 4_000)
    assert set(addresses(measured)) == {"far host"}
    assert addresses(measured)["far host"] == measured.conditions.far.counters["unanswered"]
    assert outcomes(verdict)[1] is Outcome.INCONCLUSIVE
    assert "host refused to send the reply" in verdict.findings[1].because


@pytest.mark.parametrize(("where", "way"), [("far", Direction.FORWARD), ("near", Direction.REVERSE)])
def test_what_the_line_loses_is_the_lines_in_that_direction(hosts: Hosts, where: str, way: Direction) -> None:
    """The twin of the above, hosts as busy as before: A25, one end logs arrivals while the other sees nothing."""
    with hosts.policed(where, "udp length 72 numgen random mod 100 < 20 drop"):
        measured, verdict = hosts.measure(20_000, 4_000)
    assert set(addresses(measured)) == {f"line, {way}"}
    assert [finding.objective.direction for finding in verdict.findings if finding.outcome is Outcome.FAIL] == [way]
