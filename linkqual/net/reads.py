"""What a process reads, second by second, as the kernel counts it: all that is left of an iperf3 that was killed. Floor 3.

iperf3 writes its document when it ends. One that is killed leaves none, though its seconds were counted by the kernel: it moves its
data with read(2), which /proc/PID/io counts.
"""

from __future__ import annotations

import re
from pathlib import Path

from linkqual.units import NS_PER_S

_PREAMBLE_BYTES = 16_000  # the program's own files, the cookie, the parameters of the test
_MOST = 100_000  # seconds kept: more than a day


def moved(process: int) -> tuple[int, int]:
    """Octets the process read and wrote so far; zeros where the kernel does not tell."""
    try:
        text = Path(f"/proc/{process}/io").read_text()
    except OSError:
        return 0, 0
    found = dict(re.findall(r"^(rchar|wchar): (\d+)$", text, re.MULTILINE))
    return int(found.get("rchar", 0)), int(found.get("wchar", 0))


class Reads:
    """Call `saw` several times a second. `seconds`: (its length in ns, octets read in it), whole ones, from the first data on."""

    def __init__(self) -> None:
        self.seconds: list[tuple[int, int]] = []
        self._before: int | None = None  # octets at the first look: what the program read of itself
        self._mark: tuple[int, int] | None = None
        self._last: tuple[int, int] = (0, 0)

    def saw(self, now_ns: int, read_bytes: int) -> None:
        """At `now_ns` (monotonic) it had read so much; 0 once it is gone."""
        if not read_bytes:
            return
        if self._before is None:
            self._before = read_bytes
        if self._mark is None:
            if read_bytes > self._before + _PREAMBLE_BYTES:
                self._mark = self._last
            else:
                self._last = (now_ns, read_bytes)
                return
        since_ns, since_bytes = self._mark
        if now_ns - since_ns >= NS_PER_S and len(self.seconds) < _MOST:
            self.seconds.append((now_ns - since_ns, read_bytes - since_bytes))
            self._mark = (now_ns, read_bytes)
