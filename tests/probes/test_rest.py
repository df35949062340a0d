"""Silence after a load: its length, and what ends it early."""

from __future__ import annotations

import time

import pytest

from linkqual.model import Step
from linkqual.probes.bench import Bench, duty_of, ended, rest, silent


@pytest.mark.parametrize(("duty", "slept_ns"), [(1.0, 0), (0.5, 4_000_000), (0.1, 36_000_000), (0.0, 0)])
def test_rest_keeps_the_share(monkeypatch: pytest.MonkeyPatch, duty: float, slept_ns: int) -> None:
    clock = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda s: clock.__setitem__(0, clock[0] + round(s * 1e9)))
    assert rest(Bench("192.0.2.1"), 4_000_000, duty)
    assert clock[0] == slept_ns


def test_an_interruption_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    assert not rest(Bench("192.0.2.1", interrupted=lambda: len(naps) >= 2), 10**12, 0.1)
    assert naps == [0.1, 0.1]


def test_a_far_end_that_is_gone_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def lost(self) -> str:
            return "peer-lost"

    monkeypatch.setattr(time, "sleep", lambda _s: pytest.fail("nobody is there to rest for"))
    assert not rest(Bench("192.0.2.1", control=Gone()), 10**12, 0.1)  # type: ignore[arg-type]


def test_the_duty_of_a_step() -> None:
    assert duty_of(Step("stamp", "stamp")) == 1.0
    assert duty_of(Step("flows", "flows", {"duty": 0.2})) == 0.2


def test_a_silence_lasts_as_long_as_asked_and_what_ends_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now, naps = [0], []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        now[0] += round(seconds * 1e9)

    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(time, "sleep", nap)
    assert silent(Bench("192.0.2.1"), 250_000_000)
    assert sum(naps) == pytest.approx(0.25)
    stopped = Bench("192.0.2.1", interrupted=lambda: True)
    assert not silent(stopped, 250_000_000)
    assert ended(stopped, "it was interrupted", "loads").kind == "interrupted"
    gone = ended(Bench("192.0.2.1"), "it was interrupted", "loads")
    assert (gone.kind, gone.message) == ("peer-lost", "the far end was lost between two loads")
