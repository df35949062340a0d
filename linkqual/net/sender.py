"""The Session-Sender's process: packets on a schedule, replies into settled records.

sender = Sender.start(SenderConfig(address="192.0.2.2", port=port, ssid=7, rate_pps=1000, packets=10_000))
for records in sender.chunks():     at least every 200 ms; settled rows in sequence order, every packet exactly once
    ...                             sender.stop() here ends the sending; what is in flight is still settled
sender.report()                     counters, buffers, lateness, why it ended
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType

import numpy as np

from linkqual.errors import UsageError
from linkqual.model import Histogram
from linkqual.net.process import CHUNK, ERROR, REPORT, ChildProcess, Json
from linkqual.records import RECORD, Records
from linkqual.session import tails
from linkqual.session.pacer import SCHEDULES
from linkqual.session.sender import SenderSettings
from linkqual.units import NS_PER_S
from linkqual.wire.stamp import Mode

CHUNK_HEAD = struct.Struct("<q")  # packets sent so far
_LINGER_NS = 20_000_000
_LARGEST_RING = 1 << 22
_USUAL_RING = 1 << 18  # 27 MB when full: 100 kpps for more than two seconds, or a parent that does not read for long


@dataclass(frozen=True, slots=True)
class SenderConfig:
    """`rate_pps` 0: as fast as `window` allows (closed loop). `packets` None: until `stop`. `window` 0: what the receive buffers of
    both ends hold (`far_buffer_bytes`: granted at the far end, 0: unknown). `grace_ns` 0: chosen from the rate.
    `one_way`: no replies come; rows are LOST and settled once they have left, and `net.one_way` joins them with what arrived.
    `key`: hex, of authenticated mode; "": unauthenticated. `tlvs`: what else every request asks for, names of `tails.ASKABLE`.
    `mix`: ((packet_bytes, weight), ...), drawn for each packet by the seed; empty: all of `packet_bytes`, else that is the largest.
    """

    address: str
    port: int
    ssid: int = 1
    source_address: str = ""
    source_port: int = 0
    packet_bytes: int = 64
    rate_pps: float = 1000.0
    packets: int | None = None
    timeout_ns: int = 2 * NS_PER_S
    grace_ns: int = 0
    window: int = 0
    far_buffer_bytes: int = 0
    receive_buffer_bytes: int = 16 << 20
    dscp: int = 0
    ecn: int = 0
    ttl: int = 255
    seed: int = 0
    schedule: str = "periodic"
    follow_up: bool = True
    far_kernel: bool = True  # the far end is our own reflector: its T2 is a kernel stamp
    first_seq: int = 0
    flow: int = 0
    one_way: bool = False
    key: str = field(default="", repr=False)
    tlvs: tuple[str, ...] = ()
    mix: tuple[tuple[int, int], ...] = ()
    clock_error_ns: int | None = None
    clock_synchronised: bool = False
    spin_ns: int = 0  # burn the core this long before each departure
    realtime: int = 0  # SCHED_FIFO priority, 0: ordinary

    def checked(self) -> SenderConfig:
        """Itself. Raises UsageError for what cannot be sent."""
        if self.schedule not in SCHEDULES:
            raise UsageError(f"there is no schedule {self.schedule!r}", hint=f"choose one of {', '.join(SCHEDULES)}")
        if self.packets is not None and self.packets < 1:
            raise UsageError(f"{self.packets} packets cannot be sent", hint="send at least one")
        if self.rate_pps * (self.timeout_ns + self.grace) / NS_PER_S > _LARGEST_RING:
            raise UsageError(
                f"{self.rate_pps:g} packets a second with a timeout of {self.timeout_ns / NS_PER_S:g} s: too many in flight",
                hint="lower the rate or the timeout",
            )
        if self.sizes[-1] != self.packet_bytes:
            raise UsageError(
                f"packets of {self.packet_bytes} B are not the largest of the mix", hint="give its largest"
            )
        if self.mix and self.sizes[0] < self.filled_bytes:
            raise UsageError(
                f"packets of {self.sizes[0]} B have no room for what those of every size carry",
                hint=f"let the smallest have {self.filled_bytes} B",
            )
        return self

    @property
    def sizes(self) -> list[int]:
        """Of packets, ascending."""
        return sorted({size for size, _ in self.mix} or {self.packet_bytes})

    @property
    def mode(self) -> Mode:
        """Which packet format."""
        return Mode.AUTHENTICATED if self.key else Mode.UNAUTHENTICATED

    @property
    def filled_bytes(self) -> int:
        """Octets that are filled in, signed and read, alike in packets of every size; what follows is padding."""
        filled = tails.least_bytes(self.mode, self.tlvs, self.follow_up)
        return filled if self.mix or self.packet_bytes >= filled else int(self.mode)

    @property
    def grace(self) -> int:
        """How long a reply waits for its Follow-Up stamp: as long as a lost packet holds up the records anyway, within a second."""
        three_more = int(3 * NS_PER_S / self.rate_pps) if self.rate_pps else 0
        return self.grace_ns or max(100_000_000 + three_more, min(self.timeout_ns, NS_PER_S))

    @property
    def capacity(self) -> int:
        """Most rows not settled, a power of two: room for a quarter more than the longest wait for one of them.

        In the closed loop a ring that fills up behind a loss only slows the sending down.
        """
        horizon = self.rate_pps * max(self.timeout_ns, self.grace) * 5 / 4 / NS_PER_S
        return 1 << (min(_LARGEST_RING, max(_USUAL_RING, int(horizon))) - 1).bit_length()

    def session(self, window: int, *, hardware: bool = False) -> SenderSettings:
        """The pure session's part; `hardware`: the network card stamps too."""
        return SenderSettings(
            ssid=self.ssid,
            packet_bytes=self.packet_bytes,
            timeout_ns=self.timeout_ns,
            grace_ns=self.grace,
            linger_ns=min(_LINGER_NS, self.grace),
            capacity=self.capacity,
            window=window,
            first_seq=self.first_seq,
            follow_up=self.follow_up,
            far_kernel=self.far_kernel,
            dscp=self.dscp,
            flow=self.flow,
            key=bytes.fromhex(self.key),
            one_way=self.one_way,
            hardware=hardware,
        )


class Sender:
    """The parent's handle of a running sender."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._report: Json | None = None
        self.sent = 0  # as of the last chunk
        self.address: str = process.ready["address"]
        self.port: int = process.ready["port"]
        self.window: int = process.ready["window"]

    @classmethod
    def start(cls, config: SenderConfig, launcher: Sequence[str] = ()) -> Sender:
        """Returns when the first packet is about to leave. Raises UsageError, HostError (address, port), PeerError (no route)."""
        return cls(ChildProcess("sender", asdict(config.checked()), launcher))

    @property
    def pid(self) -> int:
        """Process id, for those who watch over it."""
        return self._process.pid

    def chunks(self) -> Iterator[Records]:
        """Settled rows in sequence order, at least every 200 ms (then perhaps none), until every packet sent has appeared once.

        Lost rows have fate LOST; `session.attribution.attribute` gives them their direction. Ends early when the process died,
        which `report` then tells.
        """
        while self._report is None:
            got = self._process.frame()
            if got is None:
                self._report = {"ended_by": "died", "died": self._process.last_words(), "sent": self.sent}
                return
            kind, payload = got
            if kind == CHUNK:
                self.sent = CHUNK_HEAD.unpack_from(payload)[0]
                yield np.frombuffer(payload, RECORD, offset=CHUNK_HEAD.size)
            elif kind == REPORT:
                self._report = json.loads(payload)
                self._report["lateness"] = _histogram(self._report["lateness"])
            elif kind == ERROR:
                self._process.raise_error(payload)

    def stop(self) -> None:
        """Ask it to send no more; `chunks` then ends by itself within timeout and grace."""
        self._process.tell({"do": "stop"})

    def report(self) -> Json:
        """Counters and conditions of the session, once `chunks` has ended (what it still holds is read and dropped).

        ended_by: "count", "stop", "refused" (the far port is closed) or "died". lateness: model.Histogram of
        departures against the schedule, ns.
        """
        for _ in self.chunks():
            pass
        self._process.close()
        assert self._report is not None
        return self._report

    def close(self) -> None:
        """End it at once; idempotent."""
        self._process.close()

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _histogram(data: Json) -> Histogram:
    return Histogram(**data | {"indices": tuple(data["indices"]), "counts": tuple(data["counts"])})
