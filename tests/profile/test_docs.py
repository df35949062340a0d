"""docs/profiles.md is right: its examples are read, its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linkqual import link, profile
from linkqual.metrics import METRICS
from linkqual.profile.limits import parse
from linkqual.profile.probe_settings import SETTINGS

PAGE = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text("utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_profile_is_one() -> None:
    assert profile.parse(EXAMPLES[0], "docs").notes == ()


def test_the_link_file_is_one() -> None:
    found = link.parse(EXAMPLES[1], "docs")
    assert set(link.known(found)) - {"services", "encapsulation", "segments"} == {
        name for name, _ in link.READERS.values()
    } - {
        "name",
        "rate_counts",
    }
    assert [one.name for one in found.services] == ["storage", "voice"]
    assert [one.supplier for one in found.segments] == ["Carrier A", "Carrier B", None]


def test_every_metric_is_in_the_table() -> None:
    for name, metric in METRICS.items():
        row = next(line for line in PAGE.splitlines() if f"`{name}`" in line and line.startswith("|"))
        assert all(str(direction) in row for direction in metric.directions)


def test_every_setting_is_in_the_table() -> None:
    for probe, settings in SETTINGS.items():
        table = PAGE.partition("### Settings")[2]
        row = next(line for line in table.splitlines() if line.startswith(f"| `{probe}` |"))
        assert all(f"`{setting.key}`" in row for setting in settings)


@pytest.mark.parametrize("unit", ["ratio", "ns", "bit/s"])
def test_every_written_limit_is_read(unit: str) -> None:
    table = PAGE.partition("### Limits")[2].partition("###")[0]
    written = re.findall(
        r"`([^`]+)`", "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    )
    kinds = {"ratio": ("e-", " %", "ppm"), "ns": ("ms", "us", "rtt"), "bit/s": ("bit/s", "G", "cir", "goodput")}
    mine = [
        text for text in written if any(sign in text for sign in kinds[unit]) and ("of" not in text or unit != "ratio")
    ]
    assert len(mine) >= 3
    for text in mine:
        parse(text, unit)
