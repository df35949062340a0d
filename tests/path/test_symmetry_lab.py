"""Networks of `benchmarks/networks.py` between two sites: traced by the path probe from both ends, the truth counted by their interfaces."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from linkqual.lab.isolate import available

from ..lab.isolated import isolated

pytestmark = [pytest.mark.lab, pytest.mark.skipif(available() != "", reason="needs namespaces")]


@pytest.mark.parametrize(("privileged", "kinds"), [(True, ("same", "detour")), (False, ("parallel", "ecmp"))])
def test_never_a_wrong_firm_verdict_and_over_ipv4_always_the_right_one(
    monkeypatch: pytest.MonkeyPatch, privileged: bool, kinds: tuple[str, ...]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import networks
    import symmetry

    def judged() -> Any:
        if not privileged:
            symmetry.drop_raw()
        rows = []
        for kind in kinds:
            plain = replace(
                networks.network(2, kind), silent=frozenset(), one_name=frozenset(), no_options="", limited=False
            )
            rows += [asdict(row) | {"wrong": row.wrong} for row in symmetry.judge(plain, kind)]
        return rows

    found = isolated(judged)
    assert [row["version"] for row in found] == [4, 6] * 2
    for row in found:
        assert not row["wrong"], row
        assert row["version"] == 6 or row["verdict"] == row["truth"], row
    assert "asymmetric" in {row["truth"] for row in found}
