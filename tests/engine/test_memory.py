"""Memory of the engine's processes: a few megabytes above numpy, however many packets there are."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate

pytestmark = pytest.mark.loopback
MS = 1_000_000
MOST_MB = 40
SHOW = "import numpy; print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def megabytes(pid: int, name: str = "VmRSS") -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(name)


def numpy_mb() -> float:
    return int(subprocess.run([sys.executable, "-c", SHOW], capture_output=True, check=True).stdout) / 1024


def test_memory_does_not_grow_with_the_number_of_packets() -> None:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, max_pps=10**7)) as reflector:
        config = SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=0, window=512, packets=120_000)
        with Sender.start(config) as sender:
            settled, early, late = 0, [0.0, 0.0], [0.0, 0.0]
            for records in sender.chunks():
                settled += len(records)
                if 30_000 < settled < 120_000:
                    late = [megabytes(each.pid) for each in (sender, reflector)]
                    early = early if early[0] else late
            peaks = [megabytes(reflector.pid, "VmHWM") - numpy_mb(), late[0] - numpy_mb()]
            assert sender.report()["received"] == 120_000
    assert max(np.subtract(late, early)) < 1, (early, late)
    assert max(peaks) < MOST_MB, peaks


def test_packets_that_wait_for_their_timeout_cost_no_more_than_their_rows() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        config = SenderConfig(
            "127.0.0.1", silent.getsockname()[1], rate_pps=50_000, packets=25_000, timeout_ns=400 * MS, window=10**6
        )
        with Sender.start(config) as sender:
            peak, lost = 0.0, 0
            for records in sender.chunks():
                lost += int((records["fate"] == Fate.LOST).sum())
                if sender.sent < 25_000 or lost < 25_000:
                    peak = max(peak, megabytes(sender.pid, "VmHWM"))
    assert lost == 25_000
    assert peak - numpy_mb() < 20
