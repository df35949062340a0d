"""Whether the network card can stamp packets, and does. Floor 3.

A card stamps only while that is switched on for the whole interface (SIOCSHWTSTAMP, root). linkqual never does so itself: several drivers
reset the link for it, and a PTP daemon may depend on the setting. It uses what is on, and says how to switch it on.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import struct
from dataclasses import dataclass

from linkqual.net.netlink import outgoing_interface

_SIOCETHTOOL, _SIOCGHWTSTAMP = 0x8946, 0x89B1
_GET_TS_INFO = 0x41
_INFO = struct.Struct(
    "=IIiI12xI12x"
)  # struct ethtool_ts_info: command, so_timestamping, phc_index, tx_types, rx_filters
_CONFIG = struct.Struct("=iii")  # struct hwtstamp_config: flags, tx_type, rx_filter
_REQUEST = struct.Struct("=16sQ8x")  # struct ifreq with a pointer
_NEEDED = 1 | 4 | 64  # SOF_TIMESTAMPING_TX_HARDWARE, RX_HARDWARE, RAW_HARDWARE
_TX_ON, _FILTER_ALL = 1, 1


@dataclass(frozen=True, slots=True)
class CardClock:
    """The stamps of an interface's card. `on`: it stamps every packet now; None: its driver does not tell."""

    interface: str
    able: bool
    on: bool | None

    @property
    def worth_asking(self) -> bool:
        """Whether stamps of it may come."""
        return self.able and self.on is not False

    def said(self) -> dict[str, str | bool | None]:
        """For the report."""
        hint = f"as root, `hwstamp_ctl -i {self.interface} -t 1 -r 1` lets it stamp (the link may be reset)"
        return {"interface": self.interface, "stamps": self.on, "hint": hint if self.able and not self.on else None}


def card_of(address: str) -> CardClock | None:
    """The card a packet to this numeric address leaves by, if it can stamp on its own."""
    interface = outgoing_interface(address)
    if interface is None:
        return None
    card = card_clock(interface)
    return card if card.able else None


def card_clock(interface: str) -> CardClock:
    """What the interface's driver says of its stamps."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        told = _asked(asking, interface, _SIOCETHTOOL, _INFO.pack(_GET_TS_INFO, 0, -1, 0, 0))
        _, stamping, clock, tx_types, rx_filters = _INFO.unpack(told)
        if (
            stamping & _NEEDED != _NEEDED
            or clock < 0
            or not tx_types >> _TX_ON & 1
            or not rx_filters >> _FILTER_ALL & 1
        ):
            return CardClock(interface, able=False, on=False)
        on: bool | None = None
        with contextlib.suppress(OSError):
            _, tx_type, rx_filter = _CONFIG.unpack(_asked(asking, interface, _SIOCGHWTSTAMP, _CONFIG.pack(0, 0, 0)))
            on = tx_type == _TX_ON and rx_filter == _FILTER_ALL
        return CardClock(interface, able=True, on=on)
    return CardClock(interface, able=False, on=False)


def _asked(asking: socket.socket, interface: str, request: int, structure: bytes) -> bytes:
    """The structure as the driver filled it in. Raises OSError where there is no such request."""
    data = array.array("B", structure)
    fcntl.ioctl(asking.fileno(), request, _REQUEST.pack(interface.encode()[:15], data.buffer_info()[0]))
    return data.tobytes()
