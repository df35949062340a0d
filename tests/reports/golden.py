"""Accepted views. `ACCEPT_GOLDEN=1 pytest tests/reports` writes what is rendered now; look at the difference before you commit."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def matches(name: str, text: str) -> None:
    """Compare with the accepted file, or accept."""
    file = FOLDER / name
    if os.environ.get("ACCEPT_GOLDEN") == "1":
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"{name}: nothing accepted yet; run with ACCEPT_GOLDEN=1 and look at it"
    assert text == file.read_text(encoding="utf-8"), f"{name} differs; ACCEPT_GOLDEN=1 accepts it"
