"""From the blocks of one direction's load to its result. Pure. Floor 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from linkqual.model import Decision, Step, ThroughputResult
from linkqual.probes import iperf3_output
from linkqual.probes.iperf3_output import Interval, Report
from linkqual.probes.iperf3_run import Block


@dataclass(slots=True)
class Load:
    """One direction of a step under way. The seconds are the receiver's; those of the sender are kept beside, as far as it told."""

    step: Step
    blocks: list[Block] = field(default_factory=list)
    warmup_bps: list[float] = field(default_factory=list)
    receiver_bps: list[float] = field(default_factory=list)
    sender_seconds: list[Interval] = field(default_factory=list)

    @property
    def warmup(self) -> int:
        """Seconds before each block that count for nothing."""
        return int(self.step.params.get("warmup_seconds", 0))

    def take(self, block: Block) -> tuple[float, ...]:
        """Add a block; its measured seconds."""
        self.blocks.append(block)
        if block.receiver is not None:
            self.warmup_bps.extend(block.receiver.seconds(self.warmup)[0])
        measured = tuple(one.bps for one in block.measured(self.warmup))
        self.receiver_bps.extend(measured)
        if block.sender is not None:
            self.sender_seconds.extend(block.sender.measured(self.warmup)[: len(measured)])
        return measured

    def result(self, stopped_by: str, decisions: tuple[Decision, ...] = ()) -> ThroughputResult | None:
        """None when not even a second of warm-up was seen."""
        if not self.receiver_bps and not self.warmup_bps:
            return None
        near = [block.near for block in self.blocks if block.near is not None]
        senders = [block.sender for block in self.blocks if block.sender is not None]
        receivers = [block.receiver for block in self.blocks if block.receiver is not None]
        means = [one.rtt_mean_ns for one in senders if one.rtt_mean_ns is not None]
        retransmits = [one.retransmits for one in near if one.retransmits is not None]
        told = [one.retransmits for one in self.sender_seconds if one.retransmits is not None]
        rtts = [one.rtt_ns for one in self.sender_seconds]
        return ThroughputResult(
            streams=self.step.params["streams"],
            receiver_bps=tuple(self.receiver_bps),
            warmup_bps=tuple(self.warmup_bps),
            sent_bytes=sum(map(_moved, senders)) if senders else None,
            received_bytes=sum(map(_moved, receivers)) if receivers else None,
            retransmits=sum(retransmits) if near and len(retransmits) == len(near) else None,
            congestion_control=next(
                (one.congestion_control for one in (*near, *senders) if one.congestion_control), ""
            ),
            mss=next((one.mss for one in near if one.mss), None),
            rtt_min_ns=min((one.rtt_min_ns for one in senders if one.rtt_min_ns is not None), default=None),
            rtt_mean_ns=round(sum(means) / len(means)) if means else None,
            allowed_bps=self._allowed_bps(),
            version=self._version(),
            cpu_near=max((one.cpu_here for one in near if one.cpu_here is not None), default=None),
            cpu_far=max((one.cpu_there for one in near if one.cpu_there is not None), default=None),
            decisions=decisions,
            stopped_by=stopped_by,
            seconds_rtt_ns=tuple(rtts) if any(rtts) else (),
            seconds_retransmits=tuple(told) if len(told) == len(self.sender_seconds) else (),
            window_bytes=_largest(senders, "window_bytes"),
            receive_window_bytes=_largest(senders, "receive_window_bytes"),
            flows_bps=self._flows(),
        )

    def _allowed_bps(self) -> float | None:
        allowed = self.step.params.get("allowed_bps")
        if isinstance(allowed, dict):  # of both directions
            allowed = allowed.get(str(self.blocks[0].direction))
        return allowed

    def _flows(self) -> tuple[float, ...]:
        """Of the first block: the streams of a later one are other connections."""
        seconds = self.blocks[0].measured(self.warmup)
        if not seconds:
            return ()
        spent = sum(one.seconds for one in seconds)
        return tuple(sum(moved) * 8 / spent for moved in zip(*(one.flows for one in seconds), strict=False))

    def _version(self) -> str:
        near = next((block.near.version for block in self.blocks if block.near), "")
        far = next((block.far.version for block in self.blocks if block.far), "")
        return near if near == far or not far else f"{near} near, {far} far"

    def notes(self) -> tuple[str, ...]:
        """What results of the versions in use cannot be trusted in, in one sentence each."""
        reports = (report for block in self.blocks for report in (block.near, block.far) if report is not None)
        known = {
            one.version: [what.partition(": ")[2] for what in iperf3_output.known_wrong(one.version)] for one in reports
        }
        return tuple(
            f"iperf3 {version} has known faults: {'; '.join(said)}" for version, said in sorted(known.items()) if said
        )


def _moved(report: Report) -> int:
    """Octets of the whole test as this end counted them; of its intervals where the test did not end properly."""
    total = report.sent_bytes if report.sending else report.received_bytes
    return total if total is not None else sum(one.bytes for one in report.intervals)


def _largest(senders: Sequence[Report], name: str) -> int | None:
    return max((getattr(one, name) for report in senders for one in report.intervals), default=0) or None
