#!/usr/bin/env python3
"""Memory of the engine's processes against the number of packets, in a closed loop over loopback.

    benchmarks/memory.py [--packets 1000000] [--window 512] [--json]

Ten rows as the packets go by: resident memory of sender and reflector above the import of numpy, and of this process, which
sums up as a run does. Then the peaks. 100 million packets take ten minutes and more. `--json`: one object on the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.stats.summary import Summarizer

SHOW = "import numpy; print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
ROWS = 10


def megabytes(pid: int, name: str) -> float:
    """A line of /proc/<pid>/status; 0 when the process has ended."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(packets: int, window: int) -> dict[str, float]:
    """Peaks, MB above numpy's import (`parent_grown`: what this process grew by from the first row to the last)."""
    numpy = int(subprocess.run([sys.executable, "-c", SHOW], capture_output=True, check=True).stdout) / 1024
    summarizer, settled, peaks, parent = Summarizer(), 0, {"sender": 0.0, "reflector": 0.0}, []
    far = ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=1, max_pps=10**7)
    with Reflector.start(far) as reflector:
        near = SenderConfig("127.0.0.1", reflector.port, ssid=1, rate_pps=0, window=window, packets=packets)
        with Sender.start(near) as sender:
            pids = {"sender": sender.pid, "reflector": reflector.pid}
            for records in sender.chunks():
                summarizer.add(records)
                settled += len(records)
                peaks = {end: max(peaks[end], megabytes(pid, "VmHWM") - numpy) for end, pid in pids.items()}
                if settled * ROWS >= packets * (len(parent) + 1):
                    now = {end: megabytes(pid, "VmRSS") - numpy for end, pid in pids.items()}
                    parent.append(megabytes(os.getpid(), "VmRSS"))
                    said = "".join(f"{end} {max(0.0, size):6.1f} MB   " for end, size in now.items())
                    print(f"{settled:>12,} packets   {said}here {parent[-1] - numpy:6.1f} MB", flush=True)
            report = sender.report()
    return peaks | {"parent_grown": parent[-1] - parent[0], "packets": settled, "lost": settled - report["received"]}


def main() -> None:
    """See the module's head."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--packets", type=int, default=1_000_000, help="how many (default: %(default)s)")
    options.add_argument("--window", type=int, default=512, help="most in flight (default: %(default)s)")
    options.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    asked = options.parse_args()
    found = {name: round(figure, 1) for name, figure in measure(asked.packets, asked.window).items()}
    print(
        f"peak above numpy's import: sender {found['sender']} MB, reflector {found['reflector']} MB; "
        f"this process grew by {found['parent_grown']} MB; {found['lost']:.0f} packets lost"
    )
    if asked.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
