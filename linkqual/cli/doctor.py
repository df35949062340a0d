"""Say what this host can measure, what not, and how to mend it.

Exit code 0 when the default test (`linkqual test`) can run.

\b
Example:
  linkqual doctor
"""

from __future__ import annotations

from dataclasses import asdict

import typer

from linkqual.cli.options import AsJson, say_json
from linkqual.errors import ExitCode

SIGNS = {"ok": "+", "limited": "~", "missing": "!"}


def run(as_json: AsJson = False) -> None:
    """Examine this host."""
    from linkqual import doctor

    checks = doctor.examine()
    ready = doctor.ready(checks)
    if as_json:
        say_json({"ready": ready, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            typer.echo(f"{SIGNS[check.state]} {check.name:<22}{check.means}")
            if check.mend and check.state != "ok":
                typer.echo(f"{'':<24}{check.mend}")
        typer.echo("")
        typer.echo("the default test can run" if ready else "the default test cannot run: see the lines marked !")
    raise typer.Exit(ExitCode.PASS if ready else ExitCode.NO_DATA)
