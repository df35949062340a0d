"""The settled packets of a STAMP session on their way to file, summary and rules, and what the far end adds to them. Floor 4."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from linkqual.errors import AFTER_LOSS, LinkqualError, PeerError
from linkqual.metrics import METRICS
from linkqual.model import EndConditions, Fault, Step
from linkqual.net.sender import SenderConfig
from linkqual.probes.bench import Bench, PacketWriter, Progress, fault_of
from linkqual.records import Fate, Stamp
from linkqual.session.attribution import apply_far_stamps, attribute
from linkqual.session.hardware import source
from linkqual.stats.pacing import Audit
from linkqual.stats.summary import Summarizer
from linkqual.units import NS_PER_S
from linkqual.watch import Watch
from linkqual.wire.control import FORGOTTEN, MAX_ARRIVED, text_bytes

if TYPE_CHECKING:
    from linkqual.net.control import Control
    from linkqual.records import Records

SILENT = "silent"  # kind of fault: nothing is heard any more, and nobody hung up
QUIET_S = 2.5  # for the far kernel to acknowledge that question: with the silence before, within five seconds
SILENCE_NS = 2_000_000_000  # without any reply: ask the far end whether it is still there
_PROGRESS_NS = 100_000_000
_LOST = {
    "peer-lost": "the agent at the far end has gone away",
    SILENT: "the line went silent: neither probes nor the control channel get through",
}
_COUNTED = {  # of `session.sender.SenderCounters` and `session.reflector.ReflectorCounters`
    "sent", "unsent", "received", "late", "held", "late_copies", "forward_copies", "reverse_copies", "malformed", "unknown",
    "answered", "unanswered", "foreign", "wrong_key", "wrong_ssid", "replayed", "over_cap", "duplicates", "queue_refusals",
}  # fmt: skip


@dataclass(slots=True)
class Stream(ABC):
    """Packets of one step. `fault`: why it can go no further."""

    bench: Bench
    step: Step
    writer: PacketWriter
    summarizer: Summarizer
    watch: Watch
    fault: Fault | None = None
    done: int = 0
    lost: int = 0
    received: int = 0
    far_stamped: int = 0  # of those: the far kernel's stamp of its reply came
    told_ns: int = 0
    heard_ns: int = field(default_factory=time.monotonic_ns)

    @classmethod
    def common(cls, step: Step, bench: Bench) -> dict[str, Any]:
        """What every kind of stream is made from."""
        objectives = tuple(each for each in bench.objectives if METRICS[each.metric].probe == "stamp")
        return {
            "bench": bench,
            "step": step,
            "writer": bench.save_packets(step.key),
            "summarizer": Summarizer(objectives, audit=Audit.of(step.params)),
            "watch": Watch(
                objectives, family=bench.family_size, rate_pps=step.params["rate_pps"], one_clock=bench.one_clock
            ),
        }

    @abstractmethod
    def settings(self) -> SenderConfig:
        """What is sent, and where to."""

    @abstractmethod
    def take(self, rows: Records) -> None:
        """The next settled packets, in order."""

    @abstractmethod
    def finish(self) -> dict[str, Any]:
        """End the session at the far end and count what is held; returns what the far end counted."""

    @abstractmethod
    def far_conditions(self, far: dict[str, Any], report: dict[str, Any]) -> EndConditions:
        """The far end, from what `finish` and the sender's report say."""

    @property
    def kind(self) -> str:
        """What answers there, as `StampResult.far_end` says it."""
        return "agent"

    def explained(self, _report: dict[str, Any]) -> Fault | None:
        """The fault, with what the sender's report adds to it."""
        return self.fault

    @abstractmethod
    def refused(self) -> Fault:
        """The far end's port is closed."""

    def sent(self) -> dict[str, Any]:
        """The step's part of the sender's settings."""
        known = ("packet_bytes", "rate_pps", "timeout_ns", "window", "dscp", "ecn", "schedule", "seed", "mix")
        chosen = {key: self.step.params[key] for key in known if self.step.params.get(key) is not None}
        return chosen | {"address": self.bench.peer_address, "source_address": self.bench.near_address}

    def count(self, rows: Records) -> None:
        """Packets whose fate is final."""
        if len(rows) == 0:
            return
        self.lost += int(((rows["fate"] != Fate.RECEIVED) & (rows["fate"] != Fate.UNSENT)).sum())
        self.done += len(rows)
        received = rows["fate"] == Fate.RECEIVED
        self.received += int(received.sum())
        self.far_stamped += int((received & (rows["stamps"] & Stamp.T3_KERNEL != 0)).sum())
        self.writer.write(rows)
        self.summarizer.add(rows)
        self.watch.add(rows)

    def tell(self) -> None:
        """How far it is, now and then."""
        now = time.monotonic_ns()
        if now - self.told_ns <= _PROGRESS_NS:
            return
        self.told_ns = now
        expected = self.step.expected_ns - self.done * NS_PER_S // self.step.params["rate_pps"]
        self.bench.progress(
            Progress("delay and loss", self.done, self.step.packets, lost=self.lost, left_ns=max(0, expected) or None)
        )


@dataclass(slots=True, kw_only=True)
class AgentStream(Stream):
    """With our agent at the far end, which tells of every packet whether it arrived.

    `held` are the chunks from the last one with a reply on: should the far end go away, what follows its last reply is
    no evidence about the line, and the last replies wait for the stamps the far end hands over when it closes.
    """

    control: Control
    opened: dict[str, Any]  # the agent's answer
    held: list[Records] = field(default_factory=list)
    silence_ns: int = SILENCE_NS
    quiet_s: float = QUIET_S

    def settings(self) -> SenderConfig:
        """See Stream."""
        return SenderConfig(
            port=self.opened["port"],
            ssid=self.opened["ssid"],
            packets=self.step.packets,
            far_buffer_bytes=self.opened.get("receive_buffer_bytes", 0),
            key=self.opened.get("key") or "",
            **self.sent(),
        )

    def take(self, rows: Records) -> None:
        """See Stream."""
        now = time.monotonic_ns()
        if (rows["fate"] == Fate.RECEIVED).any():
            self._settle()
            self.heard_ns = now
        elif kind := self.control.lost():
            self.fault = Fault(kind, _LOST[kind], AFTER_LOSS[kind])
        elif now - self.heard_ns > self.silence_ns:
            self._ask_whether_alive()
            self.heard_ns = now
        self.held.append(rows)
        self.tell()

    def _settle(self) -> None:
        """Count everything held."""
        for rows in self.held:
            self._attribute(rows)
            self.count(rows)
        self.held.clear()

    def _discard(self) -> int:
        """Count what is held up to the last reply and forget the rest; returns how many packets are forgotten."""
        held, self.held = self.held, []
        if not held:
            return 0
        replies = (held[0]["fate"] == Fate.RECEIVED).nonzero()[0]
        cut = int(replies[-1]) + 1 if len(replies) else 0
        self._attribute(held[0][:cut])
        self.count(held[0][:cut])
        return sum(len(rows) for rows in held) - cut

    def _attribute(self, rows: Records) -> None:
        """Ask the far end which of the lost packets reached it."""
        lost = rows["seq"][rows["fate"] == Fate.LOST]
        if len(lost) == 0 or self.fault is not None:
            return
        first, count = int(lost[0]), int(lost[-1] - lost[0]) + 1
        try:
            for start in range(first, first + count, MAX_ARRIVED):
                end = min(start + MAX_ARRIVED, first + count)
                try:
                    answer = self._ask("stamp.arrived", first=start, count=end - start)
                except PeerError as error:
                    if error.kind != FORGOTTEN:
                        raise
                    continue  # so long ago that the far end no longer knows: lost, on which way nobody can tell
                within = (rows["seq"] >= start) & (rows["seq"] < end)
                part = rows[within]
                attribute(part, start, text_bytes(str(answer.get("arrived", ""))))
                rows["fate"][within] = part["fate"]
        except LinkqualError as error:
            self.fault = far_fault(error)

    def _ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        return self.control.call(what, session=self.opened["session"], **arguments)

    def _ask_whether_alive(self) -> None:
        """Nothing has come back for a while: does the far end still answer on the control channel?"""
        try:
            self.control.call("stamp.counters", quiet_s=self.quiet_s, session=self.opened["session"])
        except LinkqualError as error:
            self.fault = far_fault(error)
        else:
            self._settle()

    def finish(self) -> dict[str, Any]:
        """See Stream."""
        far: dict[str, Any] = {}
        if self.fault is None:
            for rows in self.held:
                self._attribute(rows)
            try:
                far = self._ask("stamp.close")
            except LinkqualError as error:
                self.fault = far_fault(error)
        if self.fault is None or self.fault.kind == SILENT:
            for rows in self.held:
                apply_far_stamps(rows, far.get("stamps", ()))
            self._settle()
        else:
            forgotten = self._discard()
            if forgotten:
                self.fault = without(self.fault, forgotten)
        return far

    def far_conditions(self, far: dict[str, Any], report: dict[str, Any]) -> EndConditions:
        """See Stream. An end whose process left no word says nothing here."""
        counters = far.get("counters", {})
        stamps: dict[str, str] = {}
        if counters:
            mirrored, unstamped = counters.get("answered", 0), counters.get("unstamped", 0)
            stamps = {
                "T2": source(mirrored, max(0, mirrored - unstamped)),
                "T3": source(self.received, self.far_stamped),
            }
        return EndConditions(
            stamps=stamps,
            receive_buffer_bytes=counters.get("receive_buffer_bytes"),
            drops=socket_drops(counters),
            counters=counted(counters),
            drop_times=tuple((int(at_ns), "socket_drops", int(by)) for at_ns, by in far.get("drop_times", ())),
        )

    def refused(self) -> Fault:
        """See Stream."""
        return Fault("peer-lost", "the far end's port was closed while packets were under way", "start the agent again")


def socket_drops(said: dict[str, Any]) -> dict[str, int]:
    """What a socket of ours dropped, by the name `rules.hosts` looks for."""
    return {name: said[name] for name in ("socket_drops", "drops_before_peer") if isinstance(said.get(name), int)}


def counted(said: dict[str, Any]) -> dict[str, int]:
    """What became of packets, as the process at one end counted them: `model.EndConditions.counters`."""
    found = {name: int(said[name]) for name in sorted(_COUNTED & said.keys()) if isinstance(said[name], int)}
    refusals = said.get("refusals")
    if isinstance(refusals, dict):
        found |= {"queue_refusals": int(refusals.get("ENOBUFS", 0)), "refusals": sum(map(int, refusals.values()))}
    return found


def without(fault: Fault, forgotten: int) -> Fault:
    """The fault, with what is not counted because of it."""
    return replace(fault, message=f"{fault.message}; the {forgotten:,} packets after its last reply are not counted")


def far_fault(error: LinkqualError) -> Fault:
    """What a failed request to the agent makes of the step."""
    if isinstance(error, PeerError) and error.kind == SILENT:
        return Fault(SILENT, _LOST[SILENT], AFTER_LOSS[SILENT])
    return fault_of(error)
