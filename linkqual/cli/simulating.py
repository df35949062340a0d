"""Carries a stream of packets over a line in memory and writes the run folder a measurement would have written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkqual import __version__, document, store
from linkqual import plan as planner
from linkqual.lab.simulate import simulate
from linkqual.metrics import METRICS
from linkqual.model import (
    SCHEMA,
    Conditions,
    EndConditions,
    Measurement,
    Qualification,
    StampResult,
    Step,
    family_size,
)
from linkqual.runner import judged
from linkqual.stats.pacing import Audit
from linkqual.stats.summary import Summarizer
from linkqual.units import NS_PER_S

if TYPE_CHECKING:
    from linkqual.lab.description import Line
    from linkqual.model import Plan, Profile


def carry(line: Line, profile: Profile, *, packets: int, rate_pps: int, seed: int, folder: Path) -> Qualification:
    """Simulate, keep the packets, judge by the exact bounds (the length was fixed), write document and report."""
    plan = _plan(line, profile, packets, rate_pps)
    step = plan.steps[0]
    run = store.Run(folder)
    summarizer = Summarizer(plan.objectives, audit=Audit.of(step.params))
    writer = run.save_packets(step.key)
    simulation = simulate(line, packets, rate_pps, seed, packet_bytes=step.params["packet_bytes"])
    for rows in simulation:
        writer.write(rows)
        summarizer.add(rows)
    writer.close()
    result = StampResult(
        summary=summarizer.summary(),
        rate_pps=float(rate_pps),
        packet_bytes=step.params["packet_bytes"],
        timeout_ns=simulation.schedule.timeout_ns,
        stopped_by="fixed length",
        family=family_size(plan.objectives),
    )
    started = simulation.schedule.start_ns
    elapsed = packets * NS_PER_S // rate_pps
    measurement = Measurement(step, started, elapsed, stamp=result, conditions=_conditions())
    return _written(run, line, profile, plan, measurement, simulation.truth | {"seed": seed})


def _plan(line: Line, profile: Profile, packets: int, rate_pps: int) -> Plan:
    """The profile's packet stream alone: the other probes have nothing to measure in memory. Of a size mix all have the largest."""
    largest = profile.probes.get("stamp", {}).get("packet_bytes")
    options = planner.PlanOptions(rate_pps=rate_pps, packets=packets, packet_bytes=largest, only=("stamp",))
    plan = planner.make(profile, line.link, options)
    objectives = tuple(one for one in plan.objectives if METRICS[one.metric].probe == "stamp")
    step: Step = plan.steps[0]
    return replace(plan, objectives=objectives, steps=(replace(step, params=step.params | {"fixed": True}),))


def _conditions() -> Conditions:
    """Both ends are one program with one clock."""
    stamps = {"T1": "simulated", "T4": "simulated"}
    return Conditions(
        near=EndConditions(host="in memory", versions={"linkqual": __version__}, stamps=stamps),
        far=EndConditions(host="in memory", stamps={"T2": "simulated", "T3": "simulated"}),
        clock_error_ns=0,
        same_clock=True,
    )


def _written(
    run: store.Run, line: Line, profile: Profile, plan: Plan, measurement: Measurement, truth: dict[str, Any]
) -> Qualification:
    from linkqual.reports import html

    done = Qualification(
        schema=SCHEMA,
        linkqual_version=__version__,
        run=run.folder.name,
        started_ns=measurement.started_ns,
        ended_ns=measurement.started_ns + measurement.elapsed_ns,
        profile=profile,
        plan=plan,
        peer=f"simulated line {line.name}",
        measurements=(measurement,),
        embedded_line=line.name,
        simulated=True,
        truth=truth,
    )
    done = judged(done, run)
    run.write_document(document.dump(done))
    run.write_report(html.render(done))
    return done
