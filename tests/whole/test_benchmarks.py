"""What the benchmarks read from others' output: by hand, so that no figure rests on a misread column."""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType

import pytest

from linkqual.lab.line import parse
from linkqual.model import Direction

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PORT, PAYLOAD = 862, 64


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import chain
    import peers

    return chain, peers


def record(second: int, nanosecond: int, source: int, destination: int, sequence: int, at: int) -> bytes:
    frame = bytearray(14 + 20 + 8 + PAYLOAD)
    frame[34:38] = struct.pack(">HH", source, destination)
    frame[42 + at : 46 + at] = struct.pack(">I", sequence)
    return struct.pack("<IIII", second, nanosecond, len(frame), len(frame)) + bytes(frame)


def test_a_capture_gives_the_instants_of_requests_and_replies(modules: tuple[ModuleType, ModuleType]) -> None:
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 256, 1)
    data = head + record(5, 7, 40_000, PORT, 3, at=0) + record(5, 999, PORT, 40_000, 3, at=24)
    assert modules[0].read(data, PORT, PAYLOAD) == ({3: 5_000_000_007}, {3: 5_000_000_999})
    with pytest.raises(RuntimeError, match="nanoseconds"):
        modules[0].read(b"\xd4\xc3\xb2\xa1" + data[4:], PORT, PAYLOAD)  # microseconds


def test_owpings_raw_lines_give_one_way_delays(modules: tuple[ModuleType, ModuleType]) -> None:
    sent = 17_094_400_000_000_000_000
    lines = [
        f"0 {sent} 1 1e-06 {sent + 2**32 // 1000} 1 1e-06 255",
        f"1 {sent + 2**22} 1 1e-06 0 0 0 255",
        "no packet",
    ]
    assert modules[1].owping_delays_us("\n".join(lines)) == [pytest.approx(1000, rel=1e-6)]


def test_seeded_lines_are_lines_and_the_same_for_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import known_lines

    drawn = known_lines.lines(30, 7)
    assert drawn == known_lines.lines(30, 7) != known_lines.lines(30, 8)
    for kind, text in drawn:
        line = parse(text, "x.yaml")
        contract, forward = line.link.cir_bps, known_lines.rate(line, Direction.FORWARD)
        assert contract
        narrowed = {
            "shaper": forward.bps < 0.9 * contract and not forward.policer,
            "policer": forward.bps < 0.9 * contract and forward.policer,
            "per-flow cap": 0 < forward.per_flow_bps < contract / 3,
            "hashing": forward.members == 4,
            "window": 0 < line.window_bytes(Direction.FORWARD) * 8e9 / line.rtt_ns() < 0.8 * contract,
            "loss": line.loss(Direction.FORWARD) == pytest.approx(1e-3),
        }
        cause = line.expect.cause.get(Direction.FORWARD)
        assert [name for name, true in narrowed.items() if true] == ([cause] if cause else []), kind
        reverse = line.expect.cause.get(Direction.REVERSE)
        assert (reverse == "shaper") is (known_lines.rate(line, Direction.REVERSE).bps < 0.9 * contract)
