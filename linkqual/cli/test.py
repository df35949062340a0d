"""Measure a line, judge it against a profile, write the report.

Without PEER the embedded virtual line is measured: real packets through network namespaces of its own.

\b
Examples:
  linkqual test --profile training
  linkqual test 'linkqual://far.example:4862?token=...' --cir 10G --rtt-budget 12ms --mtu 9000
  linkqual test 192.0.2.7 --link line.yaml --duration 10min -o acceptance/
"""

from __future__ import annotations

from linkqual.cli.asking import asks
from linkqual.cli.qualifying import Asked, carry_out


@asks(measuring=True)
def run(asked: Asked) -> int:
    """Measure, judge, report."""
    return carry_out(asked, judged=True)
