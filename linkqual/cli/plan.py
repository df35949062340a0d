"""Say what would be sent, for how long and why; send nothing.

\b
Example:
  linkqual plan --profile training --cir 10G --rtt-budget 12ms
"""

from __future__ import annotations

from linkqual.cli.asking import asks
from linkqual.cli.options import columns, say, say_json
from linkqual.cli.qualifying import Asked, prepare
from linkqual.errors import ExitCode


@asks(measuring=False)
def run(asked: Asked) -> int:
    """Describe the plan."""
    from linkqual import plan
    from linkqual.plan.bounds import concern

    prepared = prepare(asked)
    if asked.as_json:
        say_json(plan.as_json(prepared.plan))
    else:
        say(plan.describe(prepared.plan, columns()))
        asks = concern(prepared.plan) if prepared.line is None else ""
        if asks:
            say(["", f"`linkqual test` asks first, unless --yes is given: {asks}"])
    return ExitCode.PASS
