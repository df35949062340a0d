"""Say what this host can measure, what not, and how to mend it.

Exit code 0 when the default test (`linkqual test`) can run.

\b
Example:
  linkqual doctor
"""

from __future__ import annotations

import typer

from linkqual.cli.options import AsJson, say, say_json
from linkqual.errors import ExitCode


def run(as_json: AsJson = False) -> None:
    """Examine this host."""
    from linkqual import doctor

    checks = doctor.examine()
    if as_json:
        say_json(doctor.as_json(checks))
    else:
        say(doctor.describe(checks))
    raise typer.Exit(ExitCode.PASS if doctor.ready(checks) else ExitCode.NO_DATA)
