"""What a host adds by itself: measured over its loopback, or said to be unknown; and what doctor makes of it at length."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from linkqual import calibration, host_limits
from linkqual.calibration import Calibration
from linkqual.doctor import State
from linkqual.errors import HostError, PeerError
from linkqual.host_limits import Limits
from linkqual.lab.isolate import available
from linkqual.model import Conditions, EndConditions, HostFloor, Summary
from linkqual.net import host
from linkqual.net.reflector import Reflector
from linkqual.rules import exactness

FLOOR = HostFloor(n=1000, rtt_p50_ns=2_000, rtt_p99_ns=4_000, rtt_max_ns=90_000, rate_pps=1000, stamps="kernel")


@pytest.mark.loopback
def test_the_floor_of_this_host() -> None:
    with Calibration.begin(300) as running:
        found = running.finish()
    assert found.why_not == ""
    assert 0 < found.n <= 300
    assert found.rtt_p50_ns is not None
    assert found.rtt_p99_ns is not None
    assert found.rtt_max_ns is not None
    assert 0 < found.rtt_p50_ns <= found.rtt_p99_ns <= found.rtt_max_ns
    assert found.stamps == "kernel"


@pytest.mark.loopback
def test_an_interrupted_one_ends_at_once_and_leaves_nothing() -> None:
    with Calibration.begin(None) as running:
        found = running.run(lambda: True)
        assert running._sender is not None
        assert running._reflector is not None
    assert found.near["ended_by"] == "stop"
    assert found.near["sent"] < 30_000
    assert running._sender._process._process.poll() is not None
    assert running._reflector._process._process.poll() is not None


def test_a_host_without_a_loopback_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise HostError("cannot use 127.0.0.1: no such address", hint="")

    monkeypatch.setattr(Reflector, "start", refuse)
    found = Calibration.begin().finish()
    assert found.n == 0
    assert found.why_not == "the probes do not run over this host's loopback: cannot use 127.0.0.1: no such address"
    assert exactness.floor_words(found).startswith("what this host adds by itself is not known: the probes do not run")
    limits, (check,) = host_limits.tried()
    assert limits is None
    assert check.state is State.MISSING


class FarEnd:
    """An agent's answers."""

    def __init__(self, boot_id: str, answer: dict[str, Any] | PeerError) -> None:
        self.boot_id, self.answer, self.asked = boot_id, answer, False

    def call(self, name: str) -> dict[str, Any]:
        if name == "host":
            return {"boot_id": self.boot_id}
        assert name == "calibrate"
        self.asked = True
        if isinstance(self.answer, PeerError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("boot_id", "answer", "said"),
    [
        ("another's", asdict(FLOOR) | {"of_a_newer_version": 1}, FLOOR),
        (
            "another's",
            PeerError("calibrate is not known", "", "bad-request"),
            HostFloor(why_not="calibrate is not known"),
        ),
        (host.boot_id(), {}, None),
    ],
)
def test_both_ends(
    boot_id: str, answer: dict[str, Any] | PeerError, said: HostFloor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Calibration, "begin", lambda: Calibration(None, None, "not for this test"))
    far_end = FarEnd(boot_id, answer)
    near, far = calibration.of_both_ends(far_end)  # type: ignore[arg-type]
    assert near == HostFloor(why_not="not for this test")
    assert far == (said if said is not None else near)
    assert far_end.asked is (said is not None)
    assert calibration.of_both_ends(None) == (near, None)


@pytest.mark.lab
def test_a_run_measures_its_hosts_first(tmp_path: Path) -> None:
    """Most other tests run without: `LINKQUAL_CALIBRATION=0`, see conftest."""
    if reason := available():
        pytest.skip(reason)
    command = [sys.executable, "-m", "linkqual", "test", "--only", "stamp", "--packets", "300", "--calibration"]
    ended = subprocess.run(
        [*command, "-o", str(tmp_path / "run")], capture_output=True, text=True, timeout=120, check=False
    )
    (stamped,) = json.loads((tmp_path / "run" / "run.json").read_text())["measurements"]
    near, far = (stamped["conditions"][end]["floor"] for end in ("near", "far"))
    assert near == far  # one host
    assert near["n"] > 0
    assert near["rtt_p99_ns"] > 0
    for text in (ended.stdout, (tmp_path / "run" / "report.html").read_text()):
        assert "this host adds at most" in " ".join(text.split())


# ---- how exactly delays are known


def known(near: HostFloor | None, far: HostFloor | None, **stamps: str) -> exactness.Exactness:
    sources = {name: stamps.get(name, "kernel") for name in exactness.STAMPS}
    conditions = Conditions(
        near=EndConditions(stamps={name: sources[name] for name in ("T1", "T4")}, floor=near),
        far=EndConditions(stamps={name: sources[name] for name in ("T2", "T3")}, floor=far),
        clock_error_ns=50_000,
    )
    found = exactness.of(Summary(), conditions)
    assert found is not None
    return found


def test_both_hosts_and_the_clocks_add_up() -> None:
    found = known(FLOOR, replace(FLOOR, rtt_p99_ns=6_000))
    assert (found.round_trip_ns, found.one_way_ns) == (10_000, 60_000)
    assert found.sources == "T1 kernel, T2 kernel, T3 kernel, T4 kernel"


def test_a_programs_stamp_costs() -> None:
    found = known(FLOOR, FLOOR, T3="user", T1="kernel 99 %, user 1 %")
    assert found.round_trip_ns == 8_000 + 2 * exactness.USER_NS
    assert "(T1, T3)" in found.round_trip
    left_out = known(FLOOR, FLOOR, T3="kernel 85.2 %, user 14.8 %")
    assert left_out.round_trip_ns == 8_000


@pytest.mark.parametrize("lacking", [None, HostFloor(why_not="interrupted")])
def test_what_was_not_measured_is_not_claimed(lacking: HostFloor | None) -> None:
    found = known(FLOOR, lacking)
    assert found.round_trip_ns is None
    assert found.one_way_ns is None
    assert "an unknown share of the far host" in found.round_trip
    assert exactness.of(Summary(), Conditions()) is None


# ---- doctor


GOOD = Limits(
    kernel={"p50": 2000, "p99": 5000, "p99.9": 9000, "max": 20_000},
    user={"p50": 30_000, "p99": 90_000, "p99.9": 200_000, "max": 300_000},
    lateness={"p50": 50_000, "p99": 200_000, "p99.9": 400_000, "max": 900_000},
    stamps="kernel", resolution_ns=20, clock_source="tsc", realtime=True,
    fastest_pps=150_000, fastest_lost=0, near_cpu_s=5.0, far_cpu_s=4.0,
)  # fmt: skip
NONE = dict.fromkeys(("p50", "p99", "p99.9", "max"))


def test_a_good_host_needs_nothing() -> None:
    found = host_limits.checks(GOOD)
    assert [check.name for check in found if check.state is not State.OK or check.mend] == []
    assert "p99 5 µs" in found[0].found


@pytest.mark.parametrize(
    ("worse", "name", "said"),
    [
        ({"kernel": GOOD.user}, "this host adds", "p99 90 µs"),
        ({"kernel": NONE}, "this host adds", "nothing came back"),
        ({"lateness": dict.fromkeys(GOOD.lateness, 5_000_000)}, "pacing", "p99 5 ms"),
        ({"clock_source": "hpet"}, "clock resolution", "hpet"),
        ({"fastest_pps": 9_000.0}, "fastest", "9 kpps"),
        ({"fastest_lost": 3}, "fastest", "3 lost"),
        ({"fastest_pps": None, "near_cpu_s": None}, "fastest", "0 pps"),
        ({"realtime": False}, "real time", "refused"),
    ],
)
def test_what_is_bad_comes_with_what_to_do(worse: dict[str, Any], name: str, said: str) -> None:
    check = next(check for check in host_limits.checks(replace(GOOD, **worse)) if check.name == name)
    assert check.state is State.LIMITED
    assert said in check.found
    assert check.mend


@pytest.mark.loopback
def test_a_programs_own_stamps_are_taken_too() -> None:
    found = host_limits._echoes()
    assert found.n > 0
    assert found.minimum is not None
    assert found.minimum > 0
