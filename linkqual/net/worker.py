"""Entry of the engine's processes: `python -m linkqual.net.worker ROLE 0|1` (1: die with the parent's thread)."""

from __future__ import annotations

import sys
from importlib import import_module

from linkqual.net.process import serve

ROLES = {
    "sender": "linkqual.net.drive",
    "reflector": "linkqual.net.mirror",
    "load-sender": "linkqual.net.load_sender",
    "load-receiver": "linkqual.net.load_receiver",
    "burst-sender": "linkqual.net.bursts_sender",
    "burst-receiver": "linkqual.net.bursts_receiver",
}


def main() -> None:
    """See the module's head."""
    role, bound = sys.argv[1:3]
    serve(
        import_module(ROLES[role]).drive, bound == "1"
    )  # each loads only its own half: starting is most of a short session's cost


if __name__ == "__main__":
    main()
