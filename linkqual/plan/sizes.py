"""How large the packets of a STAMP stream are: one size or a mix, what must fit in, what that comes to on the line. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linkqual.errors import InputError
from linkqual.model import Json
from linkqual.session.mix import mean_bytes
from linkqual.session.tails import FOREIGN_ASKS, least_bytes
from linkqual.units import format_count
from linkqual.wire.stamp import Mode
from linkqual.wire.tlv import HEADER_BYTES

_KEY = "probes.stamp.packet_bytes"


def ip_bytes(payload: float, ip_version: int) -> float:
    """Octets at the IP layer of so many of UDP payload."""
    return payload + 8 + (20 if ip_version == 4 else 40)


@dataclass(frozen=True, slots=True)
class Sizes:
    """UDP payload in octets. `mix`: ascending (size, weight); empty: all are `largest`."""

    largest: int
    mix: tuple[tuple[int, int], ...] = ()

    @property
    def mean(self) -> float:
        """Of the packets drawn."""
        return mean_bytes(self.mix) if self.mix else self.largest

    @property
    def every(self) -> Sequence[int]:
        """Each size there is."""
        return [size for size, _ in self.mix] or [self.largest]

    @property
    def params(self) -> dict[str, Json]:
        """As a step carries them."""
        given: dict[str, Json] = {"packet_bytes": self.largest}
        return given | {"mix": [list(one) for one in self.mix]} if self.mix else given

    @property
    def text(self) -> str:
        """ "64 B", "64, 594 and 1518 B as 7:4:1 (354 B on average)"."""
        if not self.mix:
            return f"{format_count(self.largest)} B"
        *first, last = (format_count(size) for size, _ in self.mix)
        sizes = f"{', '.join(first)} and {last}" if first else last
        return f"{sizes} B as {':'.join(str(weight) for _, weight in self.mix)} ({self.mean:.0f} B on average)"


def of_params(params: dict[str, Json]) -> Sizes:
    """The sizes of a planned step."""
    return Sizes(params["packet_bytes"], tuple((size, weight) for size, weight in params.get("mix") or ()))


def chosen(
    sizes: Sizes, *, authenticated: bool, foreign: bool, mtu: int | None, ip_version: int
) -> tuple[Sizes, list[str]]:
    """The sizes that can be sent, and the sentences that say why they are others than asked for.

    A single size too small for what a packet must carry grows. Raises InputError for a mix with such a size, for what does not fit
    the MTU, and for sizes that leave one to three octets over, too few for a TLV.
    """
    mode = Mode.AUTHENTICATED if authenticated else Mode.UNAUTHENTICATED
    least = least_bytes(mode, FOREIGN_ASKS if foreign and not sizes.mix else ())
    reasons = []
    if not sizes.mix and sizes.largest < least:
        what = (
            "the signatures of authenticated mode"
            if authenticated
            else "counters and stamp methods of a reflector that is not ours"
        )
        reasons.append(f"stamp packets are {least} B: {sizes.largest} B have no room for {what}")
        sizes = Sizes(least)
    for size in sizes.every:
        if size < least or 0 < size - least < HEADER_BYTES:
            raise InputError(
                f"no stamp packet has {size} B here", f"{least} B, or {least + HEADER_BYTES} B and more", _KEY
            )
    whole = int(ip_bytes(sizes.largest, ip_version))
    if mtu is not None and whole > mtu:
        raise InputError(
            f"a stamp packet of {sizes.largest} B is {whole} B with its headers and does not fit the MTU of {mtu} B",
            f"packet_bytes of at most {mtu - (whole - sizes.largest)}",
            _KEY,
        )
    return sizes, reasons
