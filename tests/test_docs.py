"""What is documented is there, and what is there is documented."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from linkqual.errors import ExitCode
from linkqual.lab import line
from linkqual.probes import PROBES
from linkqual.reports import FORMATS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCS = {path.name: path.read_text() for path in (ROOT / "docs").rglob("*.md")}


def test_every_word_of_make_the_readme_uses_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"^make (\w+)|`make (\w+)`", README, re.MULTILINE))
    assert {word for pair in used for word in pair if word} <= targets


def test_every_exit_code_is_in_the_readme() -> None:
    for code in ExitCode:
        assert re.search(rf"^\| {code.value} \|", README, re.MULTILINE), code


def test_every_probe_line_and_report_is_documented() -> None:
    for probe in PROBES:
        assert f"`{probe}`" in DOCS["profiles.md"], probe
    for name in line.names():
        assert f"`{name}`" in DOCS["lines.md"], name
    for form in FORMATS:
        assert form in README, form


def test_every_link_between_the_pages_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_package_is_in_the_wheel() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    beside = {"probes", "profiles", "reports"}
    there = {f"linkqual.{name}" for name in beside} | {"linkqual"}
    there |= {f"linkqual.{path.parent.name}" for path in (ROOT / "linkqual").glob("*/__init__.py")}
    assert there == listed


def test_the_lock_names_no_registry() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--hash=sha256:" in lock
