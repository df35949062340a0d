"""`linkqual path` with real packets: what the traces of both ends saw is drawn, stored and on the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from linkqual import reports, store
from linkqual.errors import ExitCode
from linkqual.lab.isolate import available

pytestmark = [pytest.mark.lab, pytest.mark.skipif(available() != "", reason="needs namespaces")]


def test_a_longer_return_is_drawn_stored_and_on_the_page(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "linkqual", "path", "--line", "long-return", "--skip", "mtu", "--skip", "members"]
    command += ["-o", str(run)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env=os.environ | {"COLUMNS": "100"}
    )
    assert done.returncode == ExitCode.NO_DATA, done.stderr  # packet size and single paths were left out
    forward, reverse = ((f"10.77.{link}.2" for link in (1, 2, 3)), (f"10.77.{link}.1" for link in (4, 5, 6, 7, 8)))
    for address in (*forward, *reverse):
        assert address in done.stdout
    assert "→ forward, read downwards" in done.stdout
    assert done.stdout.count("═══ ●") == 2  # the first and the last router are both directions'
    assert done.stdout.count("◆ ") == 5  # four routers of one direction each, and the key
    document = json.loads((run / "run.json").read_text())
    assert document["profile"]["name"] == "path"
    assert document["measurements"][0]["path"]["symmetry"] == "asymmetric"
    page = (run / "report.html").read_text()
    assert page.count('<svg class="wide"') == 1
    assert reports.render(store.load(run)) in done.stdout  # as `linkqual report` shows it
