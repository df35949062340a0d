"""What the benchmarks read from others' output: by hand, so that no figure rests on a misread column."""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType

import pytest

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
