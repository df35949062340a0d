"""STAMP against a reflector that is not ours: a router's, or another program's, of STAMP or TWAMP-Light (RFC 8762, RFC 5357). Floor 4.

There is nobody to ask there. What its replies say is all there is: their numbers give losses a direction where it is stateful,
their stamps are its own, and its clock is as good as it says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError
from linkqual.model import EndConditions, Fault
from linkqual.net.sender import SenderConfig
from linkqual.probes.bench import Reflector
from linkqual.probes.streams import SILENCE_NS, SILENT, Stream, without
from linkqual.records import ABSENT, Fate
from linkqual.session.attribution import FIRST_SEQ, RESTARTED, STATEFUL, STATELESS, Numbers
from linkqual.session.hardware import source
from linkqual.session.tails import FOREIGN_ASKS, least_bytes
from linkqual.units import NS_PER_S, format_duration
from linkqual.wire.pairing import join_host_port
from linkqual.wire.stamp import Mode
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat
from linkqual.wire.tlv import HEADER_BYTES
from linkqual.wire.tlv_values import TimestampMethod

if TYPE_CHECKING:
    from linkqual.records import Records

_CLOSING = 16  # packets sent after those that count: their replies tell what became of the last ones that do
_SSID = 1
_TICK_NS = 20_000_000  # of the coarsest clock that stamps are taken from
_NO_BOUND_NS = 3600 * NS_PER_S  # an Error Estimate beyond that says that there is none
_METHODS = {
    TimestampMethod.HARDWARE: "hardware",
    TimestampMethod.SOFTWARE: "user",
    TimestampMethod.CONTROL_PLANE: "user",
}
_HELPS = (
    "see that a STAMP or TWAMP-Light reflector runs there for this address and port (and with this key, if it is given one), "
    "and that UDP passes both ways"
)


@dataclass(slots=True, kw_only=True)
class ReflectorStream(Stream):
    """Packets answered by a reflector of others."""

    reflector: Reflector
    numbers: Numbers = field(default_factory=Numbers)
    begun: bool = False
    stamped: bool = False  # it gave stamps that can be
    ticked: bool = False  # its T2 was seen to change
    unbelieved: int = 0  # replies whose stamps cannot be
    last_stamp: tuple[int, int] = (ABSENT, 0)  # T2 that was first seen in the reply to the packet sent then
    answered: bool = False

    def settings(self) -> SenderConfig:
        """See Stream."""
        return SenderConfig(
            port=self.reflector.port,
            ssid=_SSID,
            packets=None if self.step.packets is None else self.step.packets + _CLOSING,
            first_seq=FIRST_SEQ,
            far_kernel=False,
            key=self.reflector.key.hex(),
            tlvs=FOREIGN_ASKS if self._has_room() else (),
            **self.sent(),
        )

    def _has_room(self) -> bool:
        """For what is asked for besides Follow-Up Telemetry, in packets of every size."""
        mode = Mode.AUTHENTICATED if self.reflector.key else Mode.UNAUTHENTICATED
        sizes = [size for size, _ in self.step.params.get("mix") or ()] or [self.step.params["packet_bytes"]]
        over = [size - least_bytes(mode, FOREIGN_ASKS) for size in sizes]
        return all(rest == 0 or rest >= HEADER_BYTES for rest in over)

    def take(self, rows: Records) -> None:
        """See Stream."""
        now = time.monotonic_ns()
        if not self.begun:
            self.heard_ns, self.begun = now, True
        if (rows["fate"] == Fate.RECEIVED).any():
            self.heard_ns, self.answered = now, True
        elif not self.answered and now - self.heard_ns > SILENCE_NS + self.step.params["timeout_ns"]:
            self.fault = self._no_answer()
        self.count(self.numbers.take(self._believed(rows)))
        self.tell()

    def _believed(self, rows: Records) -> Records:
        """Without its stamps where they cannot be: no packet stays longer in the far end than its round trip takes, and no clock stands."""
        stay, whole = rows["far_sent_ns"] - rows["far_received_ns"], rows["received_ns"] - rows["sent_ns"]
        received = rows["fate"] == Fate.RECEIVED
        absent = (rows["far_sent_ns"] == ABSENT) | (rows["far_received_ns"] == ABSENT)
        wrong = received & (absent | (stay < 0) | (stay > whole) | self._stands(rows, received & ~absent))
        self.stamped |= bool((received & ~wrong).any())
        if not wrong.any():
            return rows
        self.unbelieved += int((wrong & ~absent).sum()) if self.ticked else 0
        rows = rows.copy()
        for name in ("far_received_ns", "far_sent_ns"):
            rows[name][wrong] = ABSENT
        return rows

    def _stands(self, rows: Records, stamped: npt.NDArray[np.bool_]) -> bool:
        """Whether T2 is the same in all of these rows, and was never seen to change or not for longer than any clock's tick."""
        if not stamped.any():
            return False
        came, sent = rows["far_received_ns"][stamped], rows["sent_ns"][stamped]
        if (came != came[0]).any():
            self.last_stamp, self.ticked = (int(came[-1]), int(sent[-1])), True
            return False
        if self.last_stamp[0] != came[0]:
            self.ticked |= self.last_stamp[0] != ABSENT
            self.last_stamp = int(came[0]), int(sent[0])
        return not self.ticked or bool(sent[-1] - self.last_stamp[1] > _TICK_NS)

    def finish(self) -> dict[str, Any]:
        """See Stream. The tail after the last reply has no direction; a long one may be the far end's end and is left out."""
        rows, tail = self.numbers.close()
        rest = np.concatenate([rows, tail])
        rest = rest[: max(0, len(rest) - _CLOSING)] if self.step.packets is not None else rest
        if not self.answered:  # it says nothing of a line whether somebody listens there
            self.fault, rest = self.fault or self._no_answer(), rest[:0]
        elif _span_ns(tail) > SILENCE_NS:
            forgotten = max(0, len(rest) - len(rows))
            rest = rest[: len(rows)]
            said = (
                "the reflector at the far end fell silent: it, the line, or a filter on the way; nobody there can tell"
            )
            self.fault = self.fault or without(Fault(SILENT, said, _HELPS), forgotten)
        self.count(rest)
        return {}

    @property
    def kind(self) -> str:
        """See Stream."""
        return self.numbers.kind

    def far_conditions(self, far: dict[str, Any], report: dict[str, Any]) -> EndConditions:
        """See Stream."""
        if not self.answered:
            return EndConditions(notes=(*_unsigned(report), *_foreign_to_us(report)))
        told = report.get("told", {}).get("timestamp_information", {})
        methods = (told.get("method_in"), told.get("method_out"))
        stamps = {name: _METHODS.get(method, "user") for name, method in zip(("T2", "T3"), methods, strict=True)}
        if not self.stamped:
            stamps = {}
        elif self.far_stamped:
            stamps["T3"] = source(self.received, self.far_stamped)
        return EndConditions(host=self._name(), stamps=stamps, notes=tuple(self._notes(report, stamps)))

    def _notes(self, report: dict[str, Any], stamps: dict[str, str]) -> list[str]:
        kinds = {
            STATEFUL: "it counts what it receives (stateful, or by Direct Measurement), so losses have a direction up to its last reply",
            STATELESS: "it copies our numbers (stateless), so losses have no direction, nor have duplicates and reordering",
            RESTARTED: "the reflector began counting anew (it was restarted, or took us for a new session), so losses from then on have no "
            "direction, nor have duplicates and reordering",
        }
        said = report.get("far_said", {})
        notes = [f"a reflector that is not ours, {self._name()}: {kinds[self.numbers.kind]}"]
        if not self.stamped:
            notes.append(
                "the reflector does not stamp: nothing is known of one direction's delay or jitter, and the round trip holds the time that "
                "packets stayed there, so the line's own is at most what is shown"
            )
        elif stamps != {"T2": "hardware", "T3": "hardware"}:
            notes.append(
                "its stamps are its own and may lie beside the moments on the wire: what a packet waits in its host before it is stamped, and "
                "after, is in every delay and in the jitter, so the line's own delay is at most what is shown"
            )
        notes += _clock(said.get("error", 0)) if self.stamped else []
        if said.get("ssid") == 0:
            notes.append("it gives no SSID back: plain RFC 8762 or TWAMP-Light, without the TLVs of RFC 8972")
        if self.numbers.carried:
            notes.append(
                f"up to {abs(self.numbers.carried):,} losses may have been given the wrong direction: packets overtook each other"
            )
        if self.unbelieved:
            notes.append(
                f"{self.unbelieved:,} of its replies say that a packet stayed there for less than nothing or longer than its whole round trip, or when "
                "its clock stood: only their round trip is counted, the stay included"
            )
        return notes + _unsigned(report) + _foreign_to_us(report)

    def _name(self) -> str:
        return join_host_port(self.bench.peer_address, self.reflector.port)

    def _no_answer(self) -> Fault:
        return Fault("unreachable", f"{self._name()} answers no probe", _HELPS)

    def explained(self, report: dict[str, Any]) -> Fault | None:
        """See Stream."""
        said = _foreign_to_us(report)
        if self.fault is None or self.answered or not said:
            return self.fault
        return replace(self.fault, message=f"{self.fault.message}; {said[0]}")

    def refused(self) -> Fault:
        """See Stream."""
        return Fault(
            "unreachable", f"nothing listens at UDP port {self.reflector.port} of {self.bench.peer_address}", _HELPS
        )


def _unsigned(report: dict[str, Any]) -> list[str]:
    count = report.get("wrong_key", 0)
    return [f"{count:,} replies were not signed with this key and were not read"] if count else []


def _foreign_to_us(report: dict[str, Any]) -> list[str]:
    count = report.get("malformed", 0) + report.get("unknown", 0)
    return [f"{count:,} packets came back that are no STAMP reply of this session"] if count else []


def _span_ns(rows: Records) -> int:
    sent = rows["sent_ns"][rows["fate"] != Fate.UNSENT]
    return int(sent[-1] - sent[0]) if len(sent) else 0


def _clock(error: int) -> list[str]:
    """What it says of its clock in the Error Estimate (RFC 4656 section 4.1.2)."""
    try:
        estimate = ErrorEstimate.from_wire(error)
    except WireError:
        return []
    form = "PTP" if estimate.form is TimestampFormat.PTP else "NTP"
    held = "is held to UTC" if estimate.synchronised else "is not synchronised"
    bound = f"error estimate {format_duration(estimate.error_ns)}" if estimate.error_ns < _NO_BOUND_NS else "no bound"
    return [f"it stamps in {form} format and says that its clock {held} ({bound})"]
