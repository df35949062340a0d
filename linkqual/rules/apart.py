"""Red lines of probes that a plan leaves out (`--only`, `--skip`): NO DATA in the verdict, told in one line. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence

from linkqual.metrics import METRICS
from linkqual.model import Objective, Plan


def sits_out(objective: Objective, plan: Plan) -> bool:
    """Whether other probes run and that of `objective` does not; never of a plan without a step."""
    metric, run = METRICS.get(objective.metric), {step.probe for step in plan.steps}
    return metric is not None and bool(run) and metric.probe not in run


def sentence(objectives: Sequence[Objective]) -> str:
    """ "24 red lines belong to probes that this run leaves out (stamp, marking)" of those that sit out; "" of none."""
    if not objectives:
        return ""
    probes = ", ".join(dict.fromkeys(METRICS[one.metric].probe for one in objectives))
    many = len(objectives) > 1
    said = "red lines belong to probes" if many else "red line belongs to a probe"
    return f"{len(objectives)} {said} that this run leaves out ({probes})"
