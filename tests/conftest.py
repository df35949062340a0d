"""What every test may rely on."""

import os
import signal

import pytest
from hypothesis import settings

# A job that a plain shell starts in the background ignores SIGINT, and so would every program the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Runs of `linkqual test` are many and calibrate for a second each: only the tests of calibration do (they ask for it by the option).
os.environ.setdefault("LINKQUAL_CALIBRATION", "0")

# pytest-xdist gives its workers a width, and what is said would be folded to it: tests read whole lines, as a pipe does.
os.environ.pop("COLUMNS", None)

# No timed assertion on a shared machine; thirty examples a law in every run, more where a law asks for them itself.
settings.register_profile("linkqual", deadline=None, max_examples=30)
settings.load_profile("linkqual")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs come first: a long test that a worker begins at the end keeps the others waiting."""
    items.sort(key=lambda item: "whole" not in item.path.parts)
