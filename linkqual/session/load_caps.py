"""What one step's loads may send: bits a second, and bytes in all, at the IP layer. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S


@dataclass(slots=True)
class Caps:
    """None: no cap."""

    max_rate_bps: int | None = None
    max_bytes: int | None = None

    def allow(self, phase: Phase) -> tuple[Phase | None, bool]:
        """(the phase within the caps, whether it is less than was asked for); no phase: nothing may be sent any more."""
        less = False
        if self.max_rate_bps is not None and not 0 < phase.rate_bps <= self.max_rate_bps:
            less = phase.rate_bps > 0
            phase = replace(phase, rate_bps=self.max_rate_bps)
        if self.max_bytes is not None:
            packets = int(self.max_bytes // phase.mean_bytes)
            if packets < 1:
                return None, True
            asked = asked_packets(phase)
            if asked is None or asked > packets:
                less = less or asked is not None
                phase = replace(phase, packets=packets)
        return phase, less

    def used(self, octets: int) -> None:
        """So many IP bytes left."""
        if self.max_bytes is not None:
            self.max_bytes -= octets


def asked_packets(phase: Phase) -> float | None:
    """Packets a phase is made of; None: as many as the host sends in its time."""
    by_time = phase.rate_bps * phase.duration_ns / (8 * NS_PER_S * phase.mean_bytes)
    known = [each for each in (phase.packets, by_time) if each]
    return min(known, default=None)


def expected_ns(phase: Phase) -> int:
    """How long a phase takes; 0: nobody knows."""
    by_packets = round(phase.packets * phase.mean_bytes * 8 * NS_PER_S / phase.rate_bps) if phase.rate_bps else 0
    return min((each for each in (phase.duration_ns, by_packets) if each), default=0)
