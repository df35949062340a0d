"""TCP goodput by iperf3, second by second as the receiver saw it, with a STAMP stream beside it. Floor 4.

Each block is a test of its own with a warm-up, whose seconds are kept apart. A judged step adds blocks until its objectives are
decided or the cap is reached. A step of both directions runs two tests at the same time. Going forward the receiver's seconds come
from the server's document, which the agent hands over when the test is closed; going back they are the client's own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from linkqual.errors import HostError
from linkqual.model import Conditions, Decision, Direction, Fault, LoadedPath, Measurement, Step, ThroughputResult
from linkqual.net import child, host
from linkqual.net.control import Control
from linkqual.probes import beside, hops
from linkqual.probes.bench import Bench, Progress, duty_of, fault_of, rest
from linkqual.probes.beside import MARGIN_S, Beside
from linkqual.probes.hops import Watching
from linkqual.probes.iperf3_run import GONE, OTHER, Block, Test
from linkqual.probes.tcp_result import Load
from linkqual.rules import words
from linkqual.rules.loads import HIDES_LOSS
from linkqual.session.hop_watch import FILLING_NS
from linkqual.stats.histogram import quantile
from linkqual.units import NS_PER_S
from linkqual.watch import Watch

SETTLE_NS = NS_PER_S // 2  # connections stand and the load has begun: before, the stream beside meets an idle line


@dataclass(slots=True)
class _Run:
    """A step under way: one load, or one of each direction."""

    step: Step
    bench: Bench
    control: Control
    stream: Beside
    hops: Watching
    watch: Watch
    loads: dict[Direction, Load] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        return bool(self.step.params.get("judged")) and not self.step.params.get("fixed")

    @property
    def first(self) -> Load:
        return next(iter(self.loads.values()))

    @property
    def seconds(self) -> int:
        """Measured so far, in each direction."""
        return min(len(load.receiver_bps) for load in self.loads.values())


def measure(step: Step, bench: Bench) -> Measurement:
    """Load one direction, or both, and tell what arrived each second; what goes wrong is a Fault beside what was measured."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    try:
        child.find("iperf3")
        _check_sender(step)
    except HostError as error:
        kind = "no-capability" if "congestion" in error.message else "missing-program"
        return _without(Measurement(step, started_ns, 0, fault=fault_of(error, kind)))
    if bench.control is None:
        why = "throughput needs our agent at the far end"
        return Measurement(step, started_ns, 0, fault=Fault("no-agent", why, "start `linkqual agent` there"))
    ways = (Direction.FORWARD, Direction.REVERSE) if step.direction is Direction.ROUND_TRIP else (step.direction,)
    with (
        hops.watching(bench, step.direction, seconds=step.duration_ns / NS_PER_S + MARGIN_S) as watching,
        beside.running(bench, step, rate_pps=step.params.get("beside_pps") or 0, idle_ns=beside.IDLE_NS) as stream,
    ):
        objectives = tuple(one for one in bench.objectives if one.metric == "throughput" and one.direction in ways)
        run = _Run(step, bench, bench.control, stream, watching, Watch(objectives, family=bench.family_size))
        run.loads = {way: Load(step) for way in ways}
        stopped_by, fault = _blocks(run)
    if fault is None and not run.seconds:
        fault = Fault("iperf3-no-result", "not one whole second was measured", "run again, for longer")
    results = {way: load.result(stopped_by, _decisions(run)) for way, load in run.loads.items()}
    first = results[ways[0]]
    near = replace(stream.near, notes=(*stream.near.notes, *_notes(run)))
    return _without(
        Measurement(
            step,
            started_ns,
            time.monotonic_ns() - clock,
            throughput=_with_stream(first, stream) if first is not None else None,
            throughput_back=results[ways[1]] if len(ways) > 1 else None,
            loaded_path=_queue(run, first, fault) if first is not None else None,
            conditions=Conditions(near=near, far=stream.far),
            fault=fault,
        )
    )


def _check_sender(step: Step) -> None:
    """HostError when this kernel cannot send as asked; the far one is asked by the request that opens its server."""
    chosen = step.params.get("congestion_control", "default")
    if chosen != "default" and step.direction is not Direction.REVERSE:
        host.check_congestion_control(chosen)


def _without(measured: Measurement) -> Measurement:
    """A comparison that a kernel cannot make is left out with its reason, and no fault of the run."""
    fault = measured.fault
    shown = measured.step.params.get("congestion_control") in HIDES_LOSS and not measured.step.params.get("judged")
    if fault is None or not shown or fault.kind != "no-capability":
        return measured
    return Measurement(
        measured.step, measured.started_ns, measured.elapsed_ns, not_needed=f"{fault.message} ({fault.hint})"
    )


def _with_stream(result: ThroughputResult, stream: Beside) -> ThroughputResult:
    return replace(result, beside=stream.result(), added=stream.added(), idle_round_trip=stream.idle_round_trip())


def _queue(run: _Run, result: ThroughputResult, fault: Fault | None) -> LoadedPath | None:
    """Where its queue begins, or its loss. The stream beside it is seen at both ends, so it tells the direction of either."""
    added = run.stream.added().get(run.step.direction)
    weak = f"{result.congestion_control} keeps its queue short" if result.congestion_control in HIDES_LOSS else ""
    return run.hops.result(
        f"{words.streams(result.streams)} of TCP",
        added_ns=quantile(added.delay, 0.5) if added is not None else None,
        lost=run.stream.lost(run.step.direction),
        weak=weak,
        cut=fault is not None,
    )


def _decisions(run: _Run) -> tuple[Decision, ...]:
    return run.watch.decisions(final=True) if run.judged else ()


def _blocks(run: _Run) -> tuple[str, Fault | None]:
    """Run blocks until there is a reason to stop; gives that reason, and the Fault where it is one."""
    params = run.step.params
    seconds = int(params["seconds"])
    cap, least = int(params.get("cap_seconds", seconds)), int(params.get("least_seconds", seconds))
    while True:
        begun, before = time.monotonic_ns(), run.seconds
        fault = _block(run, seconds)
        if fault is not None:
            return fault.kind, fault
        rested = rest(run.bench, time.monotonic_ns() - begun, duty_of(run.step))
        enough = run.seconds >= least
        if enough and (not run.judged or run.watch.idle):
            return "fixed length", None
        if enough and run.watch.decided:
            return "decided", None
        left = cap - run.seconds
        if left <= 0 or run.seconds == before:
            return "cap", None
        if not rested:
            why = "the throughput test was interrupted; the seconds measured until then are kept"
            return "interrupted", Fault("interrupted", why)
        seconds = min(left, int(params.get("block_seconds", seconds)))


def _block(run: _Run, seconds: int) -> Fault | None:
    """One test in each direction, at the same time."""
    whole = seconds + run.first.warmup
    over = threading.Event()  # one of them failed: what the other does alone is not what was asked for

    def load(way: Direction) -> Block:
        number = len(run.loads[way].blocks) + 1
        tick = _teller(run, whole) if run.loads[way] is run.first else lambda _s: None
        block = Test(run.bench, run.control, run.step, way, number).run(whole, lambda: _reason_to_stop(run, over), tick)
        if block.fault is not None:
            over.set()
        return block

    filled_ns, until_ns = run.first.warmup * NS_PER_S + SETTLE_NS, whole * NS_PER_S
    with (
        run.stream.loaded(filled_ns, until_ns),
        run.hops.loaded(FILLING_NS + SETTLE_NS, until_ns),
        ThreadPoolExecutor(2) as both,
    ):
        others = [both.submit(load, way) for way in list(run.loads)[1:]]
        blocks = [load(next(iter(run.loads))), *(other.result() for other in others)]
    for way, block in zip(run.loads, blocks, strict=True):
        measured = run.loads[way].take(block)
        if run.judged:
            run.watch.add_seconds(way, measured)
    faults = [block.fault for block in blocks if block.fault is not None]
    return min(faults, key=lambda one: one.kind == OTHER, default=None)


def _reason_to_stop(run: _Run, over: threading.Event) -> str:
    if run.bench.interrupted():
        return "interrupted"
    gone = run.stream.fault.kind if run.stream.fault is not None else ""
    if gone in GONE:
        return gone
    return run.control.lost() or (OTHER if over.is_set() else "")


def _teller(run: _Run, seconds: int) -> Callable[[float], None]:
    phase, count = f"throughput {run.step.direction}", run.step.params["streams"]
    before, warmup = run.seconds, run.first.warmup

    def tell(elapsed_s: float) -> None:
        done = before + max(0, min(seconds, int(elapsed_s)) - warmup)
        left_ns = max(0, round((seconds - elapsed_s) * NS_PER_S))
        total = before + seconds - warmup
        text = f"{count} stream{'s' * (count > 1)}"
        run.bench.progress(Progress(phase, done, total, unit="seconds", left_ns=left_ns, text=text))

    return tell


def _notes(run: _Run) -> tuple[str, ...]:
    """What is known of the programs, and why delay under load was not seen, if it was not."""
    said = dict.fromkeys(note for load in run.loads.values() for note in load.notes())
    fault = run.stream.fault
    missing = fault is not None and fault.kind not in GONE
    return (
        (*said, f"no delay was measured beside the load: {fault.message}")
        if missing and fault is not None
        else tuple(said)
    )
