"""What three routers add to the round trip: by linkqual's stamps, and by a packet capture at both ends as a witness.

tcpdump's stamps are the kernel's own, taken where packets are captured and not where sockets are stamped; nothing of linkqual is
asked for them. Witness's round trip of a packet: request out to reply in at the near host, less request in to reply out at the far one.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
from topology import Hosts, Where

_NANOSECOND_PCAP = 0xA1B23C4D  # of this byte order
_FILE_HEAD = 24
_HEADERS = 14 + 20 + 8  # Ethernet, IPv4 without options, UDP
_REPLY_SEQUENCE = 24  # RFC 8762 s4.3.1: the sender's number in a reply

Longs = npt.NDArray[np.int64]


class Capture:
    """tcpdump on one device while the `with` block runs; afterwards `requests` and `replies` say what it saw and when."""

    def __init__(self, where: Where, device: str, port: int, payload: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "seen.pcap"
        options = ("-n", "-i", device, "-s", "256", "-B", "8192", "--time-stamp-precision=nano", "-Z", "root")
        self._command = [*where, "tcpdump", *options, "-w", str(self._file), "udp", "port", str(port)]
        self._port, self._payload = port, payload

    def __enter__(self) -> Capture:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        while line := self._process.stderr.readline():
            if "listening on" in line:
                return self
        raise RuntimeError("tcpdump did not start")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=20)
        data = self._file.read_bytes()
        self._folder.cleanup()
        self.requests, self.replies = read(data, self._port, self._payload)


def read(data: bytes, port: int, payload: int) -> tuple[dict[int, int], dict[int, int]]:
    """Of a pcap file with nanoseconds: sequence number -> UTC ns, of requests to that port and of replies from it."""
    if int.from_bytes(data[:4], "little") != _NANOSECOND_PCAP:
        raise RuntimeError("tcpdump wrote no pcap file with nanoseconds")
    row = np.dtype(
        [("s", "<u4"), ("ns", "<u4"), ("kept", "<u4"), ("length", "<u4"), ("frame", "u1", _HEADERS + payload)]
    )
    rows = np.frombuffer(data, row, (len(data) - _FILE_HEAD) // row.itemsize, _FILE_HEAD)
    if (rows["kept"] != _HEADERS + payload).any():
        raise RuntimeError("the capture holds packets of another session")
    times = rows["s"].astype(np.int64) * 10**9 + rows["ns"]
    to_port = rows["frame"][:, 36:38].copy().view(">u2")[:, 0] == port
    sides = []
    for mine, offset in ((to_port, 0), (~to_port, _REPLY_SEQUENCE)):
        at = _HEADERS + offset
        numbers = rows["frame"][mine, at : at + 4].copy().view(">u4")[:, 0]
        sides.append(dict(zip(numbers.tolist(), times[mine].tolist(), strict=True)))
    return sides[0], sides[1]


def watched(hosts: Hosts, port: int, payload: int) -> tuple[ExitStack, Capture, Capture]:
    """Captures at both ends of a session to that UDP port, to be ended by the stack."""
    stack = ExitStack()
    ends = ((hosts.near, "near"), (hosts.far, "far"))
    near, far = (stack.enter_context(Capture(where, device, port, payload)) for where, device in ends)
    return stack, near, far


def round_trips(near: Capture, far: Capture) -> Longs:
    """The witness's, ns, of every packet seen four times."""
    whole = near.requests.keys() & near.replies.keys() & far.requests.keys() & far.replies.keys()
    at_near = [near.replies[seq] - near.requests[seq] for seq in whole]
    at_far = [far.replies[seq] - far.requests[seq] for seq in whole]
    return np.array(at_near, np.int64) - np.array(at_far, np.int64)


def available() -> bool:
    """Whether there is a witness."""
    return shutil.which("tcpdump") is not None
