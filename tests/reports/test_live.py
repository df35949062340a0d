"""Progress: a moving line on a terminal, plain lines elsewhere, and never in the way."""

from __future__ import annotations

import io

import pytest

from linkqual.live import PLAIN_S, REDRAW_S, Live, is_terminal, line
from linkqual.probes.bench import Progress
from linkqual.units import NS_PER_S

HALF = Progress("stamp", 166_429, 332_858, lost=2, left_ns=8 * NS_PER_S, text="20 kpps")


class Clock:
    """Time that stands still unless told."""

    def __init__(self) -> None:
        self.moment = 100.0

    def __call__(self) -> float:
        return self.moment


class Screen(io.StringIO):
    """A stream with an encoding."""

    encoding = "utf-8"  # type: ignore[assignment]


def moving(width: int = 100, screen: io.StringIO | None = None) -> tuple[Live, io.StringIO, Clock]:
    screen, clock = screen or Screen(), Clock()
    return Live(screen, terminal=True, now=clock, width=lambda: width), screen, clock


def test_the_line_says_phase_share_packets_losses_and_time_left() -> None:
    shown = line(HALF, 100, bar=True)
    assert shown == "  stamp  ██████████░░░░░░░░░░  50% · 166,429 of 332,858 packets · 2 lost · 8 s left · 20 kpps"


@pytest.mark.parametrize("width", range(12, 110, 7))
def test_what_does_not_fit_is_left_out_whole(width: int) -> None:
    shown = line(HALF, width, bar=True)
    assert len(shown) <= width
    for piece in shown.split(" · ")[1:]:
        assert piece in {"166,429 of 332,858 packets", "2 lost", "8 s left", "20 kpps"}


def test_without_a_total_there_is_no_share() -> None:
    assert line(Progress("path", 4, unit="hops"), 80, bar=True) == "  path · 4 hops"
    assert line(Progress("ping", text="waiting"), 80, bar=True) == "  ping · waiting"


def test_a_terminal_line_is_drawn_over_itself_at_most_ten_times_a_second() -> None:
    live, screen, clock = moving()
    for done in range(1000):
        live.update(Progress("stamp", done, 1000))
        clock.moment += 0.001
    draws = screen.getvalue().count("\r")
    assert 8 <= draws <= 1.0 / REDRAW_S + 1
    assert "\n" not in screen.getvalue()


def test_the_last_state_stays_when_a_phase_ends() -> None:
    live, screen, clock = moving()
    with live:
        live.phase("delay and loss")
        live.update(Progress("stamp", 1, 10))
        live.update(Progress("stamp", 10, 10))  # too soon to be drawn
        live.phase("throughput")
        clock.moment += 1
        live.update(Progress("throughput", 3, 20, unit="s"))
    lines = [part.split("\r")[-1].replace("\x1b[K", "") for part in screen.getvalue().split("\n")]
    assert len(lines) == 3
    assert "100% · 10 of 10 packets" in lines[0]
    assert "3 of 20 s" in lines[1]
    assert screen.getvalue().startswith("\r  delay and loss\x1b[K\r  stamp")
    assert screen.getvalue().endswith("\n")


def test_a_phase_without_progress_leaves_its_name() -> None:
    live, screen, _ = moving()
    with live:
        live.phase("ping")
        live.phase("path")
    assert screen.getvalue() == "\r  ping\x1b[K\n\r  path\x1b[K\n"


def test_what_is_done_has_no_time_left() -> None:
    assert line(Progress("ping", 20, 20, left_ns=0), 80) == "  ping · 20 of 20 packets"


def test_a_remark_does_not_destroy_the_moving_line() -> None:
    live, screen, _ = moving()
    live.update(HALF)
    live.say("the far end has no iperf3")
    assert "\r\x1b[Kthe far end has no iperf3\n\r  stamp" in screen.getvalue()


def test_elsewhere_lines_are_plain_and_seldom() -> None:
    screen, clock = Screen(), Clock()
    with Live(screen, terminal=False, now=clock) as live:
        live.phase("stamp")
        for done in range(0, 20_000, 100):
            live.update(Progress("stamp", done, 20_000))
            clock.moment += 0.1
    text = screen.getvalue()
    assert "\r" not in text
    assert "\x1b" not in text
    assert len(text.splitlines()) == 1 + int(20 / PLAIN_S) - 1 + 1
    assert text.splitlines()[-1] == "  stamp · 19,900 of 20,000 packets"


def test_an_ascii_stream_gets_ascii() -> None:
    raw = io.BytesIO()
    screen = io.TextIOWrapper(raw, encoding="ascii")
    with Live(screen, terminal=True, now=Clock(), width=lambda: 100) as live:
        live.phase("Zürich → 上海")
        live.update(HALF)
    assert raw.getvalue().isascii()
    assert b"##########.........." in raw.getvalue()


def test_nobody_looking_does_not_end_the_run() -> None:
    class Gone(Screen):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    live, _, _ = moving(screen=Gone())
    with live:
        live.phase("stamp")
        live.update(HALF)
    closed = Screen()
    closed.close()
    Live(closed, terminal=False).phase("stamp")


def test_a_phase_cannot_steer_the_terminal() -> None:
    live, screen, _ = moving()
    live.phase("evil\x1b[2Jname\r\nsecond line")
    assert screen.getvalue() == "\r  evil [2Jname  second line\x1b[K"


def test_what_counts_as_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(Screen):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert is_terminal(Terminal())
    assert not is_terminal(Screen())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_terminal(Terminal())


def test_errors_inside_are_not_swallowed() -> None:
    live, screen, _ = moving()

    def fail() -> None:
        with live:
            live.update(HALF)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert screen.getvalue().endswith("\n")
