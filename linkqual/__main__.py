"""The command `linkqual`, also as `python -m linkqual`."""

import signal
import sys


def main() -> int:
    """Until the verbs are loaded and see to signals themselves, Ctrl-C ends the process without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from linkqual.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
