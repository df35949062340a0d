"""The highest rate a line carries within a loss goal, for each frame size, one direction (RFC 2544 section 26.1). Floor 4.

`session.search` says what to send next; here it is sent, and what came of it is told back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from linkqual.errors import LinkqualError
from linkqual.model import Conditions, Fault, FoundRate, LoadCount, Measurement, SearchResult, Step
from linkqual.probes import loading
from linkqual.probes.bench import Bench, Progress, duty_of, fault_of, silent
from linkqual.probes.loading import Loading
from linkqual.session.activation import phase
from linkqual.session.search import Search, Told, Trial
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import NS_PER_S, format_rate

_NO_AGENT = Fault("no-agent", "the search needs our agent at the far end", "start `linkqual agent` there")
_STOPS = ("cap", "interrupted", "peer-lost")  # ends of a trial after which none follows; "host" is an answer


@dataclass(slots=True)
class _Run:
    """A step under way."""

    step: Step
    bench: Bench
    trials: list[LoadCount] = field(default_factory=list)
    found: list[FoundRate] = field(default_factory=list)
    fault: Fault | None = None


def measure(step: Step, bench: Bench) -> Measurement:
    """Search size by size; what was found is kept when it ends in the middle. Never raises for what line or peer do."""
    started, clock = time.time_ns(), time.monotonic_ns()
    run = _Run(step, bench, fault=_NO_AGENT if bench.control is None else None)
    conditions = Conditions()
    if run.fault is None:
        try:
            longest = max(size for size, _ in step.params["sizes"])
            allowed = step.params.get("max_bytes")
            with loading.opened(bench, step.direction, longest=longest, max_bytes=allowed) as load:
                _sizes(run, load)
            conditions = Conditions(near=load.near, far=load.far)
        except LinkqualError as error:
            run.fault = fault_of(error)
    result = None
    if run.trials:
        result = SearchResult(
            step.direction, step.params["goal"], tuple(run.trials), tuple(run.found), step.params["resolution"]
        )
    return Measurement(
        step, started, time.monotonic_ns() - clock, search=result, fault=run.fault, conditions=conditions
    )


def _sizes(run: _Run, load: Loading) -> None:
    params = run.step.params
    for size, maximum in params["sizes"]:
        search = Search(maximum, params["goal"], params["resolution"])
        while (trial := search.trial) is not None:
            search.told(_carry_out(run, load, size, trial, len(run.trials) + 1))
        run.found.append(FoundRate(size, maximum, search.rate_bps, search.limited))
        if run.fault is not None:
            return


def _carry_out(run: _Run, load: Loading, size: int, trial: Trial, number: int) -> Told:
    params, bench = run.step.params, run.bench
    length = params["final_ns" if trial.final else "trial_ns"]
    frame = size + OVERHEAD_BYTES["l2"]
    title = f"frames of {frame} octets at {format_rate(trial.rate_bps)}"
    bench.progress(Progress(f"search {run.step.direction}", number, None, "trials", text=title))
    loaded = load.run(phase(f"{frame} octets, trial {number}", trial.rate_bps, length, ((size, 1),)))
    count = loaded.count
    run.trials.append(count)
    run.fault = loaded.fault if loaded.fault is not None and count.short != "host" else None
    stopped = count.short if count.short in _STOPS else (run.fault.kind if run.fault is not None else "")
    if not stopped and not _settled(bench, params["settle_ns"], length, duty_of(run.step)):
        stopped = "interrupted" if bench.interrupted() else "peer-lost"
        run.fault = Fault(stopped, "the search was ended; the rates found until then are kept")
    offered = count.sent_bytes * 8 * NS_PER_S / count.sent_ns if count.sent_ns else 0.0
    return Told(count.sent, count.lost, offered, count.host_lost, stopped)


def _settled(bench: Bench, settle_ns: int, loaded_ns: int, share: float) -> bool:
    """Silence until queues are empty; longer where loads may last only a share of the time. False when the run is to end."""
    owed = round(loaded_ns * (1 / share - 1))
    return silent(bench, max(settle_ns, owed))
