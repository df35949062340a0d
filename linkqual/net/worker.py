"""Entry of the engine's processes: `python -m linkqual.net.worker sender|reflector 0|1` (1: die with the parent's thread)."""

from __future__ import annotations

import sys

from linkqual.net.process import serve


def main() -> None:
    """See the module's head."""
    role, bound = sys.argv[1:3]
    if role == "sender":  # each loads only its own half: starting is most of a short session's cost
        from linkqual.net.drive import drive
    else:
        from linkqual.net.mirror import drive
    serve(drive, bound == "1")


if __name__ == "__main__":
    main()
