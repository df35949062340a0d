"""The Session-Reflector's process: one socket, one session, one peer.

    reflector = Reflector.start(ReflectorConfig(bind_address="192.0.2.2", peer_address="192.0.2.1", ssid=7, ...))
    ... the peer sends to reflector.port ...
    reflector.arrived(0, 1000)          which of the first 1000 packets arrived
    reflector.stop()["stamps"]          kernel TX stamps no reply could carry any more

With `answering=False` nothing is sent back: `reflector.rows()` hands over what arrived, packet by packet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.model import ClockState
from linkqual.net.process import ANSWER, BITMAP, REPORT, ChildProcess, Json
from linkqual.session.reflector import ARRIVAL, ReflectorSettings
from linkqual.units import NS_PER_S
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat
from linkqual.wire.tlv_values import SyncSource

LONGEST_PACKET = 9216  # jumbo frames


@dataclass(frozen=True, slots=True)
class ReflectorConfig:
    """`peer_port` 0: the port of the first sound packet. `max_packets` 0: what pps and seconds allow. `ssid` None: any.

    `key`: hexadecimal, "": unauthenticated. `form`: "ntp" or "ptp", of T2 and T3; PTP seconds are UTC's. `mark`: replies may carry the DSCP a
    sender asks for. `foreign`: the peer's sender is not ours, begins at any sequence number, and may start again.
    """

    bind_address: str
    peer_address: str
    ssid: int | None
    peer_port: int = 0
    port: int = 0
    max_pps: int = 200_000
    max_seconds: int = 3600
    max_packets: int = 0
    max_bytes: int = 1 << 50
    longest_packet: int = LONGEST_PACKET  # octets of UDP payload; what is longer is malformed
    receive_buffer_bytes: int = 16 << 20
    first_seq: int = 0
    key: str = field(default="", repr=False)
    stateless: bool = False
    form: str = "ntp"
    answering: bool = True
    mark: bool = True
    reply_ecn: int | None = None  # of all replies; None: that of a request with Class of Service, else 0
    foreign: bool = False
    idle_ns: int = 5 * NS_PER_S  # without a new packet, after which a foreign sender may start again
    hold_ns: int = (
        NS_PER_S // 2
    )  # the same for one that starts from another port, where none is named: at least so long
    clock_error_ns: int | None = None
    clock_synchronised: bool = False
    clock_source: int = 5  # RFC 8972 s5.4: 5 local, nothing disciplines it
    realtime: int = 0  # SCHED_FIFO priority, 0: ordinary

    def settings(self, started_ns: int) -> ReflectorSettings:
        """What the session keeps to; `started_ns`: UTC now."""
        return ReflectorSettings(
            ssid=self.ssid,
            max_pps=self.max_pps,
            max_packets=self.max_packets or self.max_pps * self.max_seconds,
            max_bytes=self.max_bytes,
            error=ErrorEstimate.of(
                self.clock_error_ns, synchronised=self.clock_synchronised, form=TimestampFormat[self.form.upper()]
            ),
            first_seq=self.first_seq,
            stateless=self.stateless,
            key=bytes.fromhex(self.key),
            clock_source=self.clock_source,
            mark=self.mark,
            reply_ecn=self.reply_ecn,
            started_ns=started_ns,
        )


_CLOCK_SOURCES = {
    "chrony": SyncSource.NTP,
    "systemd-timesyncd": SyncSource.NTP,
    "ntpd": SyncSource.NTP,
    "ptp4l": SyncSource.PTP,
    "phc2sys": SyncSource.PTP,
    "none": SyncSource.LOCAL,
}


def of_clock(state: ClockState) -> dict[str, Any]:
    """What a ReflectorConfig says of this host's clock."""
    return {
        "clock_error_ns": state.error_ns,
        "clock_synchronised": state.synchronised,
        "clock_source": int(_CLOCK_SOURCES.get(state.source, SyncSource.UNKNOWN)),
    }


class SharedReflector:
    """The handle of one port that several foreign senders share; sessions are told apart by source, port and SSID, in this order."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._final: Json | None = None
        self.port: int = process.ready["port"]
        self.address: str = process.ready["address"]  # that it is bound to

    @classmethod
    def start(cls, configs: Sequence[ReflectorConfig]) -> SharedReflector:
        """All with the bind address and port of the first one. Returns when it listens. Raises HostError."""
        return cls(ChildProcess("reflector", {"sessions": [asdict(config) for config in configs]}))

    def counters(self) -> Json:
        """{"sessions": counters of each, as `ReflectorCounters`, "port": what belongs to none, and the socket's}."""
        if self._final is not None:
            return dict(self._final)
        self._process.tell({"do": "counters"})
        answer: Json = json.loads(self._process.expect(ANSWER))
        return answer

    def stop(self) -> Json:
        """End it; the counters as they are then. Idempotent."""
        if self._final is None:
            self._process.tell({"do": "stop"})
            try:
                self._final = json.loads(self._process.expect(REPORT))["counters"]
            finally:
                self._process.close()
        return self.counters()

    def close(self) -> None:
        """End it without asking for anything; idempotent."""
        self._process.close()


class Reflector:
    """The parent's handle of a running reflector. Every call raises HostError when the process died."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._final: Json | None = None
        self._rows: list[npt.NDArray[np.void]] = []
        self.port: int = process.ready["port"]
        self.receive_buffer_bytes: int = process.ready["receive_buffer_bytes"]

    @classmethod
    def start(cls, config: ReflectorConfig, launcher: Sequence[str] = ()) -> Reflector:
        """Returns when it listens. Raises HostError (address in use, no such address)."""
        return cls(ChildProcess("reflector", asdict(config), launcher))

    @property
    def pid(self) -> int:
        """Process id, for those who watch over it."""
        return self._process.pid

    def counters(self) -> dict[str, int]:
        """Counters of the session and its socket: see `ReflectorCounters`, and socket_drops, receive_buffer_bytes, cpu_ns."""
        if self._final is not None:
            return dict(self._final["counters"])
        self._process.tell({"do": "counters"})
        answer: dict[str, int] = json.loads(self._expect(ANSWER))
        return answer

    def arrived(self, first_seq: int, count: int) -> bytes:
        """One bit a Session-Sender sequence number from `first_seq` on, lowest bit first: whether it reached the reflector.

        Raises InputError for packets so long ago that they are no longer remembered (`session.arrivals`).
        """
        self._process.tell({"do": "arrived", "first": first_seq, "count": count})
        return bytes(self._expect(BITMAP))

    def rows(self) -> Iterator[npt.NDArray[np.void]]:
        """Of a one-way session: rows of `session.reflector.ARRIVAL` in the order packets came, as far as they are here.

        What is not taken waits in the reflector's process, and beyond 24 MiB there in the socket's buffer. After `stop` the rest is here.
        """
        if self._final is None:
            self.counters()  # whatever was handed over before its answer is here then
        rows, self._rows = self._rows, []
        yield from rows

    def _expect(self, wanted: bytes) -> bytearray:
        return self._process.expect(wanted, chunk=lambda rows: self._rows.append(np.frombuffer(rows, ARRIVAL)))

    def stop(self) -> Json:
        """End it: {"counters": ..., "stamps": [[far_seq, kernel TX stamp], ...], "drop_times": [[UTC ns, packets], ...]}.

        `stamps`: those no later reply has carried. `drop_times`: when its socket's buffer was full. Idempotent. Ask `arrived`
        before.
        """
        if self._final is None:
            self._process.tell({"do": "stop"})
            try:
                self._final = json.loads(self._expect(REPORT))
            finally:
                self._process.close()
        return self._final

    def close(self) -> None:
        """End it without asking for anything; idempotent."""
        self._process.close()

    def __enter__(self) -> Reflector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
