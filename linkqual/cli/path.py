"""Look at the path alone and draw it: routers both ways, packet size, single paths; with consent the narrowest hop.

Half a minute and a few megabytes, so that it may be asked on a line in service. Without PEER the embedded virtual line is looked at.

\b
Examples:
  linkqual path
  linkqual path 'linkqual://far.example:4862?token=...' --mtu 9000
  linkqual path 192.0.2.7 --cir 1G --allow-expiring-load
"""

from __future__ import annotations

from dataclasses import replace

from linkqual.cli.asking import asks
from linkqual.cli.qualifying import Asked, carry_out


@asks(measuring=True, profile="path", without=("rate", "packets", "duration", "streams", "quick", "calibration"))
def run(asked: Asked) -> int:
    """Measure, judge, report."""
    return carry_out(replace(asked, calibration=False), judged=True)  # nothing here is as fine as what hosts add
