"""The long measurement in short form, and the books it is compared with: they must notice what they are for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from linkqual.impair import Impairer, Impairment, Loss
from linkqual.lab import pump
from linkqual.lab.isolate import available
from linkqual.records import Fate

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SIZE = 64


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import witness

    return witness


def packet(way: str, seq: int) -> bytes:
    header = bytearray(28)
    header[0], header[9] = 0x45, socket.IPPROTO_UDP
    payload = bytearray(SIZE)
    at = 0 if way == "forward" else 24
    payload[at : at + 4] = seq.to_bytes(4, "big")
    return bytes(header + payload)


def carried(witness: ModuleType, way: str, impairment: Impairment, seqs: list[int], packets: int = 8) -> object:
    """What the books of one direction hold after these packets went through."""
    books = witness.Way(way, packets)
    (here, source), (target, there) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    with here, source, target, there:
        source.setblocking(False)
        _, (row,) = pump.counters(1)
        lane = witness.WatchedLane(
            source.fileno(), target.fileno(), Impairer(impairment, 1), row, way=books, size=SIZE
        )  # fmt: skip
        for seq in seqs:
            here.send(packet(way, seq))
        here.send(b"\x45" + bytes(40))  # something else: in no book
        lane.read()
        deadline = time.monotonic() + 5
        while lane.queue.first_due() is not None and time.monotonic() < deadline:
            lane.write()
    return books


def test_the_witness_notes_what_the_line_did_to_each_packet(witness: ModuleType) -> None:
    forward = carried(witness, "forward", Impairment(duplicate=1.0, loss=Loss(positions=(1,))), [0, 1, 2, 3])
    reverse = carried(witness, "reverse", Impairment(loss=Loss(positions=(2, 3, 5))), [0, 0, 2, 2, 3, 3])
    true = witness.truth(forward, reverse, 4)
    assert true.fate.tolist() == [Fate.RECEIVED, Fate.LOST_FORWARD, Fate.LOST_REVERSE, Fate.RECEIVED]
    assert true.forward_copies.tolist() == [1, 0, 0, 0]  # of the replies to packet 3 only one came
    assert true.reverse_copies.tolist() == [0, 0, 0, 0]
    assert (true.reordered_forward, true.reordered_reverse) == (0, 0)


def test_the_witness_counts_reordering_of_each_direction(witness: ModuleType) -> None:
    forward = carried(witness, "forward", Impairment(), [1, 0, 3, 2])  # 0 and 2 were overtaken before
    reverse = carried(witness, "reverse", Impairment(duplicate=1.0), [1, 0, 3, 2])
    true = witness.truth(forward, reverse, 4)
    assert (true.reordered_forward, true.reordered_reverse) == (2, 0)
    assert true.reverse_copies.tolist() == [1, 1, 1, 1]
    assert true.forward_copies.tolist() == [0, 0, 0, 0]
    reverse.left[0], reverse.left[3] = reverse.left[3], reverse.left[0]
    assert witness.truth(forward, reverse, 4).reordered_reverse > 0
    assert np.array_equal(true.fate, np.full(4, Fate.RECEIVED))


@pytest.mark.lab
@pytest.mark.quiet
def test_a_mangled_line_is_counted_exactly() -> None:
    if reason := available():
        pytest.skip(reason)
    asked = ["--minutes", "0.05", "--rate", "4000", "--case", "mangled", "--json"]
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "soak.py"), *asked],
        capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    case = json.loads(done.stdout.splitlines()[-1])["cases"]["mangled"]
    assert (case["differences"], case["fault"]) == (0, None)
    measured = {what: row["measured"] for what, row in case["counts"].items()}
    assert measured["packets sent"] == 12_000
    assert min(measured[f"lost {way}"] for way in ("forward", "reverse")) > 200  # the cut alone: 0.1 s of 4000 a second
    assert min(measured[f"reordered {way}"] for way in ("forward", "reverse")) > 100
    assert measured["copied forward, reply received"] > 0
    assert measured["copied reverse"] > 0
