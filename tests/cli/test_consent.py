"""Loads that others may feel are asked about once; scripts are told what to give."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
import typer

from linkqual.cli import consent
from linkqual.cli.qualifying import Asked, _ask_about_expiring, prepare
from linkqual.errors import InputError, UsageError
from linkqual.model import Direction, Link, Plan, Step
from linkqual.plan import traffic
from linkqual.plan.bounds import concern, read_duty


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def plan(in_service: bool | None, bps: int = 10**9, size: int = 10**10) -> Plan:
    load = Step("throughput/forward/4", "throughput", {}, Direction.FORWARD, offered_bps=bps, total_bytes=size)
    return Plan("p", (load,), (), Link("line 7", cir_bps=10**9, in_service=in_service))


@pytest.mark.parametrize(
    ("in_service", "bps", "size", "said"),
    [
        (True, 10**9, 10**10, "up to 10 GB at 1 Gbit/s, all that is contracted, over a line in service"),
        (True, 10**9, 10**6, "at 1 Gbit/s, all that is contracted, over a line in service"),
        (True, 10**8, 10**10, "up to 10 GB over a line in service"),
        (True, 10**8, 10**9, ""),
        (True, 0, 0, "as much as the line takes over a line in service"),
        (None, 10**9, 10**10, "up to 10 GB over a line others may use"),
        (None, 10**9, 10**9, ""),
        (False, 0, 0, ""),
    ],
)
def test_what_is_asked_about(in_service: bool | None, bps: int, size: int, said: str) -> None:
    found = concern(plan(in_service, bps, size))
    assert said in found
    assert bool(found) is bool(said)


def test_probes_are_never_asked_about() -> None:
    stamp = Step("stamp", "stamp", total_bytes=10**12, offered_bps=10**9)
    assert not concern(Plan("p", (stamp,), (), Link(in_service=True, cir_bps=10**6)))


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


@pytest.mark.parametrize("agreed", [True, False])
def test_on_a_terminal_it_is_asked_once(monkeypatch: pytest.MonkeyPatch, agreed: bool) -> None:
    asked: list[str] = []
    shown = terminal(monkeypatch)
    monkeypatch.setattr(typer, "confirm", lambda text, err: (asked.append(text), agreed)[1])
    if agreed:
        consent.ask(plan(True))
    else:
        with pytest.raises(UsageError, match="nothing was sent"):
            consent.ask(plan(True))
    assert asked == ["Send it?"]
    assert "at most 10 GB, peak 1 Gbit/s" in shown.getvalue()


@pytest.mark.parametrize("agreed", [True, False])
def test_load_that_expires_is_asked_about_by_its_packets(monkeypatch: pytest.MonkeyPatch, agreed: bool) -> None:
    shown = terminal(monkeypatch)
    monkeypatch.setattr(typer, "confirm", lambda text, err: agreed)
    asked = Asked("192.0.2.1", "training", only=("narrow",))
    allowed = _ask_about_expiring(asked)
    assert allowed.allow_expiring_load is agreed
    assert "packets expire on routers" in shown.getvalue()
    monkeypatch.setattr(typer, "confirm", lambda *_a, **_k: pytest.fail("the option is the answer"))
    assert _ask_about_expiring(replace(asked, allow_expiring_load=True)).allow_expiring_load
    assert not _ask_about_expiring(replace(asked, only=("stamp",))).allow_expiring_load
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert not _ask_about_expiring(asked).allow_expiring_load


def test_no_answer_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_text: str, err: bool) -> bool:
        raise typer.Abort

    terminal(monkeypatch)
    monkeypatch.setattr(typer, "confirm", gone)
    with pytest.raises(UsageError):
        consent.ask(plan(True))


def test_without_a_terminal_only_a_line_in_service_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(typer, "confirm", lambda *_a, **_k: pytest.fail("nobody is there"))
    consent.ask(plan(None))
    consent.ask(plan(True, 10**8, 10**8))
    with pytest.raises(UsageError) as caught:
        consent.ask(plan(True))
    assert "nobody is there to be asked" in caught.value.message
    assert "--yes" in caught.value.hint


@pytest.mark.parametrize(("text", "duty"), [("10%", 0.1), ("0.25", 0.25), ("100 %", 1.0)])
def test_a_duty_is_read(text: str, duty: float) -> None:
    assert read_duty(text) == pytest.approx(duty)


@pytest.mark.parametrize("text", ["0", "0.01%", "200%", "x", ""])
def test_a_duty_that_is_none(text: str) -> None:
    with pytest.raises(InputError):
        read_duty(text)


def test_more_than_the_contract_is_not_called_all_of_it() -> None:
    twice = plan(True, 2 * 10**9, 10**6)
    assert "at 2 Gbit/s, more than the 1 Gbit/s contracted, over a line in service" in concern(twice)


def test_packets_that_expire_are_told_before_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the option allowed them: whoever says yes knows how many meet a router."""
    monkeypatch.setenv("COLUMNS", "60")
    shown = terminal(monkeypatch)
    monkeypatch.setattr(typer, "confirm", lambda text, err: True)
    asked = Asked("192.0.2.1", "path", link_facts=(("cir", "50M"), ("in_service", "true")), allow_expiring_load=True)
    consent.ask(prepare(asked).plan)
    assert "packets expire on routers" in " ".join(shown.getvalue().split())
    assert max(map(len, shown.getvalue().splitlines())) <= 60


def test_a_probe_without_a_rate_has_no_peak() -> None:
    assert traffic(Plan("p", (Step("path", "path", total_bytes=10**4),), (), Link())) == [
        "forward      at most 5 kB",
        "reverse      at most 5 kB",
    ]


def test_bytes_that_are_bounded_are_told_though_the_rate_is_the_lines_own() -> None:
    trains = Step("narrow/forward", "narrow", {}, Direction.FORWARD, total_bytes=6 * 10**7)
    tcp = Step("throughput/forward/4", "throughput", {}, Direction.FORWARD)
    assert traffic(Plan("p", (trains,), (), Link())) == [
        "forward      at most 60 MB, peak the line's own rate (narrow/forward)"
    ]
    (said,) = traffic(Plan("p", (trains, tcp), (), Link()))
    assert said.startswith("forward      60 MB and what the loads of throughput carry at the line's own rate, peak")
