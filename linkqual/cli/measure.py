"""Measure a line and keep what came, without judging it.

\b
Example:
  linkqual measure 192.0.2.7 --link line.yaml -o monday/ && linkqual judge monday/ --profile inference
"""

from __future__ import annotations

from linkqual.cli.asking import asks
from linkqual.cli.qualifying import Asked, carry_out


@asks(measuring=True)
def run(asked: Asked) -> int:
    """Measure only."""
    return carry_out(asked, judged=False)
