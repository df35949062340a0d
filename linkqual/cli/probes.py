"""List the probes: what each measures and needs.

\b
Example:
  linkqual probes
"""

from __future__ import annotations

import typer

from linkqual.cli.options import AsJson, say_json


def run(as_json: AsJson = False) -> None:
    """List the registry."""
    from linkqual.metrics import METRICS
    from linkqual.probes import PROBES

    rows = [
        {
            "name": probe.name,
            "measures": probe.title,
            "needs": probe.needs,
            "metrics": [metric.name for metric in METRICS.values() if metric.probe == probe.name],
        }
        for probe in PROBES.values()
    ]
    if as_json:
        say_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']:<12}{row['measures']}")
        typer.echo(f"{'':<12}needs {row['needs']}")
        if row["metrics"]:
            typer.echo(f"{'':<12}metrics: {', '.join(row['metrics'])}")
