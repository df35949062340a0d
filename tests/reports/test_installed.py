"""The page is drawn from an installed copy too, where reports lies inside linkqual and its templates with it."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from linkqual.document import dump

from .samples import SAMPLES

ROOT = Path(__file__).parents[2]


def test_every_template_is_packed() -> None:
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for file in (ROOT / "reports" / "templates").iterdir():
        assert any(fnmatch.fnmatch(f"templates/{file.name}", pattern) for pattern in packed["linkqual.reports"])
    assert not [file for file in (ROOT / "reports").rglob("*") if file.is_dir() and file.parent.name == "templates"]


def test_an_installed_copy_draws_the_page(tmp_path: Path) -> None:
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "linkqual", tmp_path / "linkqual", ignore=without)
    for inner in ("reports", "probes", "profiles"):
        shutil.copytree(ROOT / inner, tmp_path / "linkqual" / inner, ignore=without)
    (tmp_path / "run.json").write_text(dump(SAMPLES["no_data"]()), encoding="utf-8")
    program = (
        "import linkqual.reports as r, linkqual.document as d, pathlib\n"
        "assert pathlib.Path(r.__file__).is_relative_to(pathlib.Path.cwd()), r.__file__\n"
        "print(len(r.render(d.load(pathlib.Path('run.json').read_text()), 'html')))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10_000
