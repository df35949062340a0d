"""What a network card says of itself: packets its rings had no room for (`ethtool -S`), and whether its slot is too narrow. Floor 3.

Drivers name them as they like: those kept are the ones whose name says that a packet was missed, discarded or found no buffer.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import re
import socket
import struct
from pathlib import Path

_SIOCETHTOOL = 0x8946
_GET_DRIVER, _GET_STRINGS, _GET_STATISTICS = 0x03, 0x1B, 0x1D
_STATISTICS_SET = 1
_NAME_BYTES = 32
_DRIVER_BYTES, _COUNT_AT = 196, 180  # struct ethtool_drvinfo; its n_stats
_HEAD_BYTES = {_GET_STRINGS: 12, _GET_STATISTICS: 8}
_MOST = 8192  # statistics of one card
_REQUEST = struct.Struct("=16sQ8x")  # struct ifreq with a pointer

_INTERFACES = Path("/sys/class/net")
_CODED_8B10B_GTS = 5.0  # up to here (PCIe 2) a lane spends 2 bits of 10 on coding, above 2 of 130

_LACKING = re.compile(
    r"(^|_)(missed|no_?buf\w*|no_?dma\w*|nobuf\w*|out_of_buffer|discards?|fifo_errors|overruns?|drop\w*|steer_missed\w*)",
    re.I,
)
_FOREIGN = re.compile(
    r"xdp|filter|vlan|bad|csum|crc|symbol|fcs|qinq|unknown|arfs|eswitch|rule|smbus", re.I
)  # refused for what they are


def lacks_room(name: str) -> bool:
    """Whether a statistic of this name counts packets the card or its driver had no room for."""
    return bool(_LACKING.search(name)) and not _FOREIGN.search(name)


def ring_drops(interface: str) -> dict[str, int]:
    """Packets the interface's driver could not take, by the driver's own name; {} without any such counter."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        driver = _ask(asking, interface, _GET_DRIVER, bytes(_DRIVER_BYTES - 4))
        count = min(int.from_bytes(driver[_COUNT_AT : _COUNT_AT + 4], "little"), _MOST)
        if not count:
            return {}
        asked = struct.pack("=II", _STATISTICS_SET, count) + bytes(count * _NAME_BYTES)
        names = _ask(asking, interface, _GET_STRINGS, asked)[_HEAD_BYTES[_GET_STRINGS] :]
        values = _ask(asking, interface, _GET_STATISTICS, struct.pack("=I", count) + bytes(8 * count))
        return _kept(names, values[_HEAD_BYTES[_GET_STATISTICS] :], count)
    return {}


def slot_bps(interface: str) -> int | None:
    """What the card's PCIe slot carries in one direction, its coding taken off and packets' overhead not: 252 Gbit/s (31.5 GB/s) for
    16 lanes of generation 4. None where nothing is known (a virtual interface).
    """
    found = _slot(interface)
    return None if found is None else round(found[0] * found[1] * _coding(found[0]) * 1e9)


def narrow_slot(interface: str) -> str:
    """A sentence where the card's slot carries less than the card's own rate; "" where it does not or nothing is known."""
    found, slot = _slot(interface), slot_bps(interface)
    try:
        card = int(_read(interface, "speed")) / 1000  # Mbit/s, -1: no link
    except ValueError:
        return ""
    if found is None or slot is None or slot / 1e9 >= card:
        return ""
    per_lane, lanes = found
    return (
        f"the slot of {interface} ({lanes} lanes of {per_lane:g} GT/s) carries at most {slot / 1e9:.3g} Gbit/s, less than the card's {card:g}: "
        "a wider slot, or one of a later generation, is needed to fill it"
    )


def _slot(interface: str) -> tuple[float, int] | None:
    """(GT/s of a lane, lanes)."""
    try:
        speed = float(_read(interface, "device/current_link_speed").split(" ")[0])
        lanes = int(_read(interface, "device/current_link_width"))
    except ValueError:
        return None
    return (speed, lanes) if speed > 0 and lanes > 0 else None


def _coding(per_lane: float) -> float:
    return 0.8 if per_lane <= _CODED_8B10B_GTS else 128 / 130


def _read(interface: str, name: str) -> str:
    try:
        return (_INTERFACES / interface / name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _ask(asking: socket.socket, interface: str, command: int, rest: bytes) -> bytes:
    """One SIOCETHTOOL; the structure as the driver filled it in. Raises OSError where there is no such command."""
    structure = array.array("B", struct.pack("=I", command) + rest)
    request = _REQUEST.pack(interface.encode()[:15], structure.buffer_info()[0])
    fcntl.ioctl(asking.fileno(), _SIOCETHTOOL, request)
    return structure.tobytes()


def _kept(names: bytes, values: bytes, count: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for at in range(count):
        name = names[at * _NAME_BYTES : (at + 1) * _NAME_BYTES].split(b"\0")[0].decode("ascii", "replace").strip()
        if lacks_room(name):
            found[name] = int.from_bytes(values[8 * at : 8 * at + 8], "little")
    return found
