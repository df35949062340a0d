"""What the programs that keep a clock say of it, as they said it once, and damaged."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.model import ClockState
from linkqual.net import clock_state
from linkqual.wire import clock_words

CHRONY = "A29FC801,ntp.example,3,1796022000.1,{offset},0.0001,0.0002,1.0,0.0,0.1,{delay},{dispersion},64.2,{leap}\n"
TIMESYNC = """\
       Server: 203.0.113.5 (ntp.example)
Poll interval: 34min 8s (min: 32s; max 34min 8s)
         Leap: normal
      Version: 4
      Stratum: 2
    Reference: C0000201
    Precision: 1us (-24)
Root distance: 30.952ms (max: 5s)
       Offset: -1.166ms
        Delay: 33.144ms
       Jitter: 6.264ms
 Packet count: 14
    Frequency: -9.153ppm
"""
NO_PACKET = "       Server: 203.0.113.5 (ntp.example)\nPoll interval: 32s (min: 32s; max 34min 8s)\n Packet count: 0\n"
PTP = """\
sending: GET CURRENT_DATA_SET
	90e2ba.fffe.20c7f8-0 seq 0 RESPONSE MANAGEMENT CURRENT_DATA_SET
		stepsRemoved     1
		offsetFromMaster -142.0
		meanPathDelay    9310.0
sending: GET TIME_STATUS_NP
	90e2ba.fffe.20c7f8-0 seq 0 RESPONSE MANAGEMENT TIME_STATUS_NP
		master_offset              310
		ingress_time               1361545089345029441
		cumulativeScaledRateOffset +1.000000000
		gmPresent                  {present}
		gmIdentity                 00a069.fffe.0b552d
sending: GET PORT_DATA_SET
	90e2ba.fffe.20c7f8-1 seq 0 RESPONSE MANAGEMENT PORT_DATA_SET
		portIdentity            90e2ba.fffe.20c7f8-1
		portState               {state}
"""
LOCKED = PTP.format(present="true", state="SLAVE")


def steered(text: str) -> ClockState | None:
    return clock_words.ptp(text, steered=True)


READERS: tuple[tuple[Callable[[str], ClockState | None], str], ...] = (
    (clock_words.chrony, CHRONY.format(offset="-0.000012", delay="0.0123", dispersion="0.0004", leap="Normal")),
    (clock_words.timesyncd, TIMESYNC),
    (steered, LOCKED),
)


# ---- chrony


def test_chrony_states_offset_and_root_distance() -> None:
    line = CHRONY.format(offset="-0.000012", delay="0.0123", dispersion="0.0004", leap="Normal")
    assert clock_words.chrony(line) == ClockState("chrony", True, 6_562_000, "ntp.example, stratum 3, leap Normal")


def test_chrony_out_of_step_states_no_bound() -> None:
    state = clock_words.chrony(CHRONY.format(offset="0", delay="1.0", dispersion="1.0", leap="Not synchronised"))
    assert state is not None
    assert not state.synchronised
    assert state.error_ns is None


@pytest.mark.parametrize("line", ["", "506 Cannot talk to daemon\n", "a,b,c,d,e,f,g,h,i,j,k,l,m,n\n", "1,2\n"])
def test_what_is_no_answer_of_chrony(line: str) -> None:
    assert clock_words.chrony(line) is None


@pytest.mark.parametrize("offset", ["nan", "inf", "1e300"])
def test_a_bound_that_is_no_number_is_none(offset: str) -> None:
    state = clock_words.chrony(CHRONY.format(offset=offset, delay="0", dispersion="0", leap="Normal"))
    assert state is not None
    assert state.error_ns is None


# ---- systemd-timesyncd


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1min 4s", 64), ("30.952ms", 0.030952), ("-1.166ms", 0.001166), ("+5us", 5e-6), ("0", 0), ("34min 8s", 2048),
     ("1h 1s", 3601), ("2 parsecs", None), ("", None), ("5", None), ("ms 5", None)],
)  # fmt: skip
def test_spans_as_systemd_writes_them(text: str, seconds: float | None) -> None:
    found = clock_words.span(text)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_timesyncd_states_what_a_bound_needs() -> None:
    state = clock_words.timesyncd(TIMESYNC)
    wanted = 1.166e-3 + 33.144e-3 / 2 + 30.952e-3 + 6.264e-3 + 15e-6 * 2048
    assert state is not None
    assert (state.source, state.synchronised) == ("systemd-timesyncd", True)
    assert state.error_ns == math.ceil(wanted * 1e9)
    assert "ntp.example" in state.detail


@pytest.mark.parametrize("text", [NO_PACKET, TIMESYNC.replace("Leap: normal", "Leap: not synchronized")])
def test_timesyncd_without_an_answer_is_not_in_step(text: str) -> None:
    state = clock_words.timesyncd(text)
    assert state is not None
    assert (state.synchronised, state.error_ns) == (False, None)


@pytest.mark.parametrize("lost", ["Offset", "Delay", "Root distance", "Jitter", "Poll interval"])
def test_a_line_that_is_missing_leaves_the_bound_unknown(lost: str) -> None:
    text = "\n".join(line for line in TIMESYNC.splitlines() if lost not in line)
    state = clock_words.timesyncd(text)
    assert state is not None
    assert (state.synchronised, state.error_ns) == (True, None)


# ---- ptp4l


def test_ptp_states_no_bound() -> None:
    state = clock_words.ptp(LOCKED, steered=True)
    assert state is not None
    assert (state.source, state.synchronised, state.error_ns) == ("ptp4l", True, None)
    assert "last offset 310 ns, path delay 9310.0 ns" in state.detail
    assert "phc2sys steers the clock" in state.detail


@pytest.mark.parametrize(
    ("text", "follows"),
    [
        (LOCKED, False),
        (PTP.format(present="false", state="SLAVE"), True),
        (PTP.format(present="true", state="LISTENING"), True),
    ],
)
def test_ptp_out_of_step(text: str, follows: bool) -> None:
    state = clock_words.ptp(text, steered=follows)
    assert state is not None
    assert not state.synchronised


def test_the_first_of_several_clocks_counts() -> None:
    other = LOCKED.replace("310", "-999").replace("true", "false")
    assert clock_words.ptp(LOCKED + other, steered=True) == clock_words.ptp(LOCKED, steered=True)


# ---- damaged


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(READERS), st.data())
def test_damaged_text_is_read_as_less_and_never_as_an_error(
    reader: tuple[Callable[[str], ClockState | None], str], data: st.DataObject
) -> None:
    read, text = reader
    begin, end = (data.draw(st.integers(0, len(text))) for _ in range(2))
    state = read(text[:begin] + data.draw(st.text(max_size=5)) + text[end:])
    assert state is None or state.error_ns is None or state.error_ns >= 0
    assert read(data.draw(st.text(max_size=80))) is None or "Server: " in text


# ---- on this host


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all there is on PATH, but for the shell and cat."""
    for name in ("sh", "cat"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def script(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_chrony_is_asked_where_it_runs(programs: Path) -> None:
    line = CHRONY.format(offset="0.0005", delay="0", dispersion="0", leap="Normal").strip()
    script(programs, "chronyc", f"echo '{line}'")
    assert clock_state.clock_state() == ClockState("chrony", True, 500_000, "ntp.example, stratum 3, leap Normal")


@pytest.mark.parametrize("body", ["echo '506 Cannot talk to daemon'; exit 1", "echo nonsense", "exit 0"])
def test_without_a_daemon_the_kernel_is_asked(programs: Path, body: str) -> None:
    script(programs, "chronyc", body)
    state = clock_state.clock_state()
    assert state.source != "chrony"
    assert state.detail
    assert state.synchronised or state.error_ns is None


@pytest.mark.parametrize(
    ("daemon", "program", "text"), [("systemd-timesyncd", "timedatectl", TIMESYNC), ("ptp4l", "pmc", LOCKED)]
)
def test_each_daemon_is_asked_by_its_own_program(
    daemon: str, program: str, text: str, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_state, "_running", lambda _names: {daemon, "phc2sys"} if daemon == "ptp4l" else {daemon})
    bare = clock_state.clock_state()
    assert (bare.source, bare.error_ns) == (daemon, None)
    (programs / "said").write_text(text)
    script(programs, program, f"cat {programs}/said")
    state = clock_state.clock_state()
    assert (state.source, state.synchronised) == (daemon, True)
    assert (state.error_ns is None) is (daemon == "ptp4l")


def test_nobody_set_the_clock_while_this_ran() -> None:
    first = clock_state.realtime_ahead_ns()
    assert abs(clock_state.realtime_ahead_ns() - first) < 20_000
