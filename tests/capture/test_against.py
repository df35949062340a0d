"""A stored run against a capture of it: what agrees, what does not, from each place; and the verb that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkqual.cli import main
from linkqual.records import Fate, Records, Stamp, empty_records
from linkqual.session.captured_numbers import Attribution
from linkqual.session.witness import Comparison, Place, Witness
from linkqual.stats.histogram import quantiles
from linkqual.wire.timestamp import ntp_from_ns
from linkqual.wire.tlv_values import FollowUp
from tests.capture.made import MS, Point, T, ethernet, stored
from tests.capture.test_captured import golden
from tests.capture.test_reading import pcap

REPLIES = {0: 0, 1: 1, 3: 2, 7: 4, 8: 5}  # of the golden example: number sent, number answered
FORWARD, REVERSE = (2, 5, 6), (4, 9)


def run_of_the_golden_example() -> Records:
    """What the engine would have stored; its stamps 30 ns wider than the capture's on each side."""
    rows = empty_records(10)
    rows["sent_ns"] = rows["intended_ns"] = T + np.arange(10) * 10 * MS - 30
    rows["fate"] = Fate.RECEIVED
    rows["fate"][list(FORWARD)], rows["fate"][list(REVERSE)] = Fate.LOST_FORWARD, Fate.LOST_REVERSE
    came = rows["fate"] == Fate.RECEIVED
    rows["received_ns"][came] = rows["sent_ns"][came] + 5 * MS + 60
    rows["far_sent_ns"][came] = rows["received_ns"][came] - 80
    rows["far_received_ns"][came] = rows["far_sent_ns"][came] - MS
    rows["far_seq"][list(REPLIES)] = list(REPLIES.values())
    rows["arrival"][came] = np.arange(came.sum())
    rows["stamps"] = int(Stamp.ALL_KERNEL)
    return rows


def captured(point: Point) -> Records:
    from tests.capture.made import looked_at

    return looked_at(point.packets).records[0]


def compared(place: Place, run: Records, capture: Records, cut: int = 3) -> Comparison:
    witness = Witness(place)
    witness.compare(np.split(run, range(cut, len(run), cut)), np.split(capture, [4]))
    return witness.result(Attribution(3, 1, 1))


def test_a_faithful_capture_confirms_the_run() -> None:
    done = compared(Place.NEAR, run_of_the_golden_example(), captured(golden(Point())))
    assert done.agrees
    assert [(row.run, row.capture) for row in done.rows[:3]] == [(10, 10), (5, 5), (5, 5)]
    assert [(row.run, row.capture, row.judged) for row in done.rows[3:5]] == [(3, 3, False), (2, 1, False)]  # the tail
    assert (done.compared, done.difference.n) == ("round trip", 5)
    assert quantiles(done.difference, (0.5,)) == (-60,)
    assert done.size.maximum == 60


@pytest.mark.parametrize("place", Place)
def test_from_each_place(place: Place) -> None:
    point = Point()
    if place is Place.NEAR:
        golden(point)
    for seq in () if place is Place.NEAR else (0, 1, 3, 4, 7, 8, 9):
        point.request(seq, T + seq * 10 * MS)
        point.reply(seq, {0: 0, 1: 1, 3: 2, 4: 3, 7: 4, 8: 5, 9: 6}[seq], T + seq * 10 * MS + MS + 5)
    done = compared(place, run_of_the_golden_example(), captured(point))
    assert done.agrees, done
    assert done.compared == {"near": "round trip", "far": "time at the far end", "between": ""}[place]
    if place is Place.FAR:
        assert [(row.run, row.capture) for row in done.rows[:2]] == [(7, 7), (7, 7)]
        assert done.size.maximum == 5


def broken(what: str, rows: Records) -> Records:
    """The run with one packet told wrongly."""
    change = {"lost": (3, Fate.LOST_REVERSE), "answered": (2, Fate.RECEIVED), "unsent": (1, Fate.UNSENT)}
    if what == "forgotten":
        return np.delete(rows, 5)
    if what == "invented":
        more = empty_records(1, 10)
        more["fate"] = Fate.LOST_FORWARD
        return np.concatenate([rows, more])
    place, fate = change[what]
    rows["fate"][place] = fate
    return rows


@pytest.mark.parametrize(
    ("what", "near", "far"),
    [
        ("lost", "reply captured in time, lost by the run's count", ""),
        ("answered", "answered by the run's count, no reply captured", "reached the far end by the run's count"),
        ("unsent", "captured, never sent by the run", "captured, never sent by the run"),
        ("forgotten", "captured, never sent by the run", ""),
        ("invented", "sent by the run, not captured", ""),
    ],
)
def test_one_packet_told_wrongly_is_found(what: str, near: str, far: str) -> None:
    done = compared(Place.NEAR, broken(what, run_of_the_golden_example()), captured(golden(Point())))
    assert not done.agrees
    assert {name: count for name, count in done.contradictions.items() if count}.get(near) == 1
    point = Point()
    for seq in (0, 1, 3, 4, 7, 8, 9):
        point.request(seq, T + seq * 10 * MS)
        point.reply(seq, seq, T + seq * 10 * MS + MS)
    seen = compared(Place.FAR, broken(what, run_of_the_golden_example()), captured(point))
    assert seen.agrees == (not far)
    assert any(name.startswith(far) for name, count in seen.contradictions.items() if count) or not far


def test_copies_and_directions_must_agree_too() -> None:
    run = run_of_the_golden_example()
    run["reverse_copies"][0] = 1
    assert not compared(Place.NEAR, run, captured(golden(Point()))).agrees
    run = run_of_the_golden_example()[:9]  # its last packet is answered: every direction is known
    point = golden(Point())
    witness = Witness(Place.NEAR)
    witness.compare([run], [captured(point)[:9]])
    assert witness.result(Attribution(3, 1, 0)).agrees
    assert not witness.result(Attribution(2, 2, 0)).agrees
    assert witness.result(Attribution(2, 1, 1)).agrees  # the tail may have been lost either way
    assert not witness.result(Attribution(2, 2, 1)).agrees


# ---- the verb


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    capture = tmp_path / "line.pcap"
    capture.write_bytes(pcap([(ns, ethernet(octets)) for ns, octets in golden(Point()).packets]))
    return capture, stored(tmp_path / "run", run_of_the_golden_example(), 1000 * MS)


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    code = main(["import", *map(str, arguments), "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


def test_the_verb_recounts(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = asked(capsys, files[0])
    (session,) = answer["sessions"]
    assert (code, answer["packets"], answer["stamp_packets"], answer["damage"]) == (0, 15, 15, None)
    assert (session["sender"], session["reflector"], session["ssid"]) == ("192.0.2.1:40000", "192.0.2.2:862", 7)
    assert (session["sent"], session["received"], session["lost"], session["missing"]) == (10, 5, 5, 0)
    assert session["attribution"] == {"forward": 3, "reverse": 1, "tail": 1, "head": 0, "reason": ""}
    assert session["round_trip_ns"]["max"] == 4 * MS
    assert main(["import", str(files[0])]) == 0
    text = capsys.readouterr().out
    assert "192.0.2.1:40000 -> 192.0.2.2:862, SSID 7, unauthenticated" in text
    assert "lost on the way there" in text


def test_the_verb_compares(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = asked(capsys, files[0], "--against", files[1])
    assert (code, answer["against"]["agrees"], answer["against"]["step"]) == (0, True, "stamp")
    assert answer["against"]["difference_ns"]["p50"] == -60
    assert main(["import", str(files[0]), "--against", str(files[1] / "run.json")]) == 0
    assert "the capture confirms the run" in capsys.readouterr().out
    code, answer = asked(capsys, files[0], "--against", files[1], "--at", "far")
    assert (code, answer["against"]["agrees"]) == (1, False)
    assert main(["import", str(files[0]), "--against", str(files[1]), "--at", "far"]) == 1
    said = capsys.readouterr().out
    assert "the capture does NOT confirm the run" in said
    assert "3 packets: captured at the far end, lost on the way there by the run's count" in said


@pytest.mark.parametrize(("far_end", "code"), [("stateful", 0), ("agent", 1)])
def test_packets_that_only_close_a_foreign_session_are_not_compared(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], far_end: str, code: int
) -> None:
    run = stored(tmp_path / "foreign", run_of_the_golden_example()[:8], 1000 * MS, far_end)
    assert asked(capsys, files[0], "--against", run)[0] == code


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--session", "2"], 4, "no such STAMP session"),
        (["--port", "9"], 4, "no such STAMP session"),
        (["--at", "here"], 2, "there is no place 'here'"),
        (["--against", "nowhere"], 2, "cannot read"),
        (["--against", "RUN", "--step", "stamp-2"], 2, "no packets of a STAMP step 'stamp-2'"),
        (["--timeout", "soon"], 2, "soon"),
    ],
)
def test_what_cannot_be_answered(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    given = [str(files[1]) if each == "RUN" else each for each in arguments]
    assert main(["import", str(files[0]), *given]) == code
    out = capsys.readouterr()
    assert says in out.out + out.err


def test_a_run_whose_packets_are_torn_is_said(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    packets = files[1] / "packets" / "stamp.arrow"
    packets.write_bytes(packets.read_bytes()[:-8])
    code, answer = asked(capsys, files[0], "--against", files[1])
    assert (code, answer["against"]["packets_complete"]) == (0, False)
    main(["import", str(files[0]), "--against", str(files[1])])
    assert "the run's packet file is not whole" in capsys.readouterr().out


def test_the_runs_timeout_is_the_limit(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stored(tmp_path / "hasty", run_of_the_golden_example(), 3 * MS)
    _, answer = asked(capsys, files[0], "--against", run)
    assert answer["sessions"][0]["counts"]["late"] == 5
    _, answer = asked(capsys, files[0], "--against", run, "--timeout", "1 s")
    assert answer["sessions"][0]["counts"]["late"] == 0


# ---- of a part of the run, and of another run


def steady(count: int = 100) -> tuple[list[tuple[int, bytes]], Records]:
    """Packets of a session without loss, one every 10 ms, and its run."""
    point = Point()
    for seq in range(count):
        point.request(seq, T + seq * 10 * MS)
        point.reply(seq, seq, T + seq * 10 * MS + 5 * MS)
    rows = empty_records(count)
    rows["sent_ns"] = rows["intended_ns"] = T + np.arange(count) * 10 * MS - 30
    rows["received_ns"] = rows["sent_ns"] + 5 * MS + 60
    rows["far_sent_ns"] = rows["received_ns"] - 80
    rows["far_received_ns"] = rows["far_sent_ns"] - MS
    rows["far_seq"] = rows["arrival"] = np.arange(count)
    rows["fate"] = Fate.RECEIVED
    rows["stamps"] = int(Stamp.ALL_KERNEL)
    return [(ns, ethernet(octets)) for ns, octets in point.packets], rows


@pytest.mark.parametrize("at", Place)
@pytest.mark.parametrize(
    ("part", "torn", "first", "last"),
    [
        (slice(0, 80), 0, 0, 39),
        (slice(0, 81), 0, 0, 39),  # the last request's reply is missing
        (slice(0, 81), 7, 0, 39),
        (slice(60, 200), 0, 30, 99),
        (slice(61, 200), 0, 31, 99),  # the first reply's request is missing
        (slice(61, 81), 0, 31, 39),
        (slice(0, 1), 0, 0, -1),
    ],
)
def test_a_capture_of_a_part_says_nothing_of_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: slice, torn: int, first: int, last: int, at: str
) -> None:
    packets, rows = steady()
    file, run = tmp_path / "cut.pcap", stored(tmp_path / "run", rows, 1000 * MS)
    data = pcap(packets[part])
    file.write_bytes(data[: len(data) - torn])
    code, answer = asked(capsys, file, "--against", run, "--at", at)
    found = answer["against"]
    assert (code, found["agrees"]) == (3, True), found["contradictions"]
    assert found["coverage"] == {"first": first, "last": last, "highest": 99}
    main(["import", str(file), "--against", str(run), "--at", at])
    said = capsys.readouterr().out
    assert "nothing can be said of the r" in said
    assert (f"the capture covers packets {first} to {last} of 0 to 99; within them both agree" in said) == (last > 0)


def test_a_contradiction_within_the_part_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packets, rows = steady()
    rows["fate"][10] = Fate.LOST_REVERSE
    file, run = tmp_path / "cut.pcap", stored(tmp_path / "run", rows, 1000 * MS)
    file.write_bytes(pcap(packets[:80]))
    assert main(["import", str(file), "--against", str(run)]) == 1
    said = capsys.readouterr().out
    assert "  1 packet: reply captured in time, lost by the run's count\n" in said
    assert "within them the capture does NOT confirm the run" in said


def test_a_capture_that_went_on_without_the_runs_packets_contradicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets, rows = steady()
    other = (T + 2000 * MS, b"\0" * 60)
    file, run = tmp_path / "on.pcap", stored(tmp_path / "run", rows, 1000 * MS)
    file.write_bytes(pcap([*packets[:80], other]))
    code, answer = asked(capsys, file, "--against", run)
    assert (code, answer["against"]["contradictions"]["sent by the run, not captured"]) == (1, 60)
    file.write_bytes(pcap([*packets, other]))
    assert asked(capsys, file, "--against", run)[0] == 0


def test_the_capture_of_another_run_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packets, rows = steady()
    for column in ("intended_ns", "sent_ns", "received_ns", "far_sent_ns", "far_received_ns"):
        rows[column] += 180_000 * MS
    file, run = tmp_path / "other.pcap", stored(tmp_path / "run", rows, 1000 * MS)
    file.write_bytes(pcap(packets))
    assert asked(capsys, file, "--against", run) == (4, answer_without(capsys, file))
    assert main(["import", str(file), "--against", str(run)]) == 4
    assert "no session of this capture is that run's" in capsys.readouterr().out


def answer_without(capsys: pytest.CaptureFixture[str], file: Path) -> Any:
    return asked(capsys, file, "--timeout", "1 s")[1] | {"against": None}


def test_quantiles_are_of_the_same_packets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point, (_, rows) = Point(), steady()
    for seq in range(100):
        point.request(seq, T + seq * 10 * MS)
        told = FollowUp(seq - 1, ntp_from_ns(T + seq * 10 * MS - 5 * MS - 50), 2) if 0 < seq <= 90 else None
        point.reply(seq, seq, T + seq * 10 * MS + 5 * MS + (seq > 90) * MS, told=told)
    packets = [(ns, ethernet(octets)) for ns, octets in point.packets]
    rows["stamps"][50:80] = int(Stamp.ALL_KERNEL) & ~int(Stamp.T3_KERNEL)
    rows["received_ns"] -= 60
    rows["received_ns"][50:80] += MS
    file, run = tmp_path / "line.pcap", stored(tmp_path / "run", rows, 1000 * MS)
    file.write_bytes(pcap(packets))
    code, answer = asked(capsys, file, "--against", run)
    assert (code, answer["against"]["run_ns"]["max"], answer["against"]["capture_ns"]["max"]) == (0, 4 * MS, 4 * MS)
    assert answer["sessions"][0]["counts"]["uncorrected"] == 10
    main(["import", str(file), "--against", str(run)])
    said = capsys.readouterr().out
    assert "no Follow-Up put it right: left out of the round trip" in said
    assert "round trip of the same packets, run: p50 " in said
