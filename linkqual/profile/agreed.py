"""The limit `agreed`: what the contract of each service says, so that one profile serves every line. Floor 2, pure.

    agreed · agreed or 1e-3        of metrics that are judged service by service

Frame loss, delay, delay variation and availability are agreed service by service (`Service`); the information rate is the CIR, less
the frame loss agreed.
"""

from __future__ import annotations

from linkqual.metrics import METRICS
from linkqual.model import Link, Objective, Relation, Service
from linkqual.profile.limits import Limit, parse
from linkqual.session.activation import services_of
from linkqual.units import format_value

AGREED = "agreed"
PROBE = "services"


def of_service(metric: str, service: Service) -> float | None:
    """What is agreed of a metric, in its base unit; None: nothing."""
    if metric == "information_rate":
        return 1 - (service.flr or 0.0)
    found = {
        "frame_loss_ratio": service.flr,
        "frame_transfer_delay": service.ftd_ns,
        "frame_delay_variation": service.fdv_ns,
        "service_availability": service.availability,
    }
    return found.get(metric)


def criterion(objective: Objective, service: Service) -> float | None:
    """The limit of an objective for one service; None: measured and shown."""
    limit = parse(objective.limit_text or "none", METRICS[objective.metric].unit)
    if limit.fact != AGREED:
        return limit.value
    found = of_service(objective.metric, service)
    return limit.value if found is None else found * limit.factor


def resolve(limit: Limit, objective: Objective, link: Link) -> tuple[float | None, str]:
    """The strictest criterion among the services of the line, and the sentence that says how; None: none has any."""
    found = [value for one in services_of(link) if (value := criterion(objective, one)) is not None]
    metric = METRICS[objective.metric]
    if not found:
        return None, f"{metric.name}: no service of the line has an agreed value, so it is measured and not judged"
    value = max(found) if objective.relation is Relation.AT_LEAST else min(found)
    if len(set(found)) == 1:
        return value, f"{metric.name} {objective.limit_text}: {format_value(value, metric.unit)}"
    return (
        value,
        f"{metric.name} {objective.limit_text}: each service by its own, the strictest {format_value(value, metric.unit)}",
    )
