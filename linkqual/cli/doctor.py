"""Say what this host can measure, what not, and how to mend it.

Exit code 0 when the default test (`linkqual test`) can run.

\b
Examples:
  linkqual doctor
  linkqual doctor --calibrate
"""

from __future__ import annotations

from typing import Annotated

import typer

from linkqual.cli.options import AsJson, say, say_json
from linkqual.errors import ExitCode

Calibrate = Annotated[
    bool,
    typer.Option("--calibrate", help="Also measure for six seconds how well this host measures, over its loopback."),
]


def run(as_json: AsJson = False, calibrate: Calibrate = False) -> None:
    """Examine this host."""
    from linkqual import doctor

    checks, limits = doctor.examine(), None
    if calibrate:
        from linkqual import host_limits

        limits, more = host_limits.tried()
        checks += more
    if as_json:
        figures = {"calibration": host_limits.as_json(limits)} if limits is not None else {}
        say_json(doctor.as_json(checks) | figures)
    else:
        say(doctor.describe(checks))
    raise typer.Exit(ExitCode.PASS if doctor.ready(checks) else ExitCode.NO_DATA)
