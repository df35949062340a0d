"""Entry of the engine's processes: `python -m linkqual.net.worker sender|reflector 0|1` (1: die with the parent's thread)."""

from __future__ import annotations

import sys

from linkqual.net import drive, reflector
from linkqual.net.process import serve


def main() -> None:
    """See the module's head."""
    role, bound = sys.argv[1:3]
    serve({"sender": drive.drive, "reflector": reflector.drive}[role], bound == "1")


if __name__ == "__main__":
    main()
