"""Sessions a reflector serves without a control channel, for senders that are not ours: a `sessions:` file (YAML 1.2).

    sessions:
      - name: router 7
        source: 192.0.2.7         # the address its packets come from
        port: 40862               # their source port; without it any, one at a time: the next once it is silent for 0.5 s
        ssid: 7                   # RFC 8972 s3; any: a sender that has none (TWAMP-Light, plain RFC 8762)
        key: 00112233...          # hexadecimal: authenticated mode
        stateless: false          # true: replies have the numbers of their requests
        timestamps: ntp           # or ptp
        mark: true                # false: replies never carry the DSCP a sender asks for
        rate: 1 kpps              # most packets a second
        until: 2026-12-31T00:00:00Z

Floor 2, pure: the caller reads the file.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, replace
from datetime import datetime

from linkqual.errors import InputError
from linkqual.settings import Complaints, Listing, Section, boolean, choice, read_tree, text, whole
from linkqual.units import NS_PER_S, parse_packet_rate

HINT = "a sessions file holds one key, 'sessions:', and below it a list; each entry has at least name, source and ssid"
DEFAULT_PPS = 1000
_MOST_SESSIONS = 200
_MOST_PPS = 10_000_000
_MAX_NAME = 60
_MOST_KEY_BYTES = 128


@dataclass(frozen=True, slots=True)
class Provision:
    """One session. `ssid` None: any; `port` 0: any; `until_ns` UTC, None: for ever."""

    name: str
    source: str
    ssid: int | None
    port: int = 0
    key: str = field(default="", repr=False)  # hexadecimal
    stateless: bool = False
    timestamps: str = "ntp"
    mark: bool = True
    max_pps: int = DEFAULT_PPS
    until_ns: int | None = None
    until_at: str = field(default="", compare=False)  # file, line and key that say so


def parse(source: str, name: str) -> tuple[Provision, ...]:
    """The sessions in `source` (text of a YAML file called `name`); InputError lists everything that is wrong with it.

    Those that say more of their sender come first: whose packet it is, the first one that fits decides.
    """
    complaints = Complaints(name, HINT)
    root = Section(read_tree(source, complaints), "", complaints)
    node = root.raw("sessions")
    items = node.items if isinstance(node, Listing) else ()
    if not items:
        root.complain(
            "sessions", "is no list of sessions" if node is not None else "is missing", "at least one session"
        )
    if len(items) > _MOST_SESSIONS:
        root.complain("sessions", f"has {len(items)} entries", f"at most {_MOST_SESSIONS}")
        items = ()
    found: list[Provision] = []
    for number, item in enumerate(items, 1):
        section = root.as_section(item, f"sessions#{number}")
        if section is not None:
            session = _session(section, found)
            found.append(
                replace(session, until_at=f"{name}:{section.line('until')}: {section.label('until')}")
                if session.until_ns is not None
                else session
            )
    root.close()
    complaints.raise_any()
    return tuple(sorted(found, key=lambda one: (one.ssid is None, not one.port)))


def _session(section: Section, before: list[Provision]) -> Provision:
    session = Provision(
        name=section.get("name", _name, "", required=True, allowed="what the sender is called"),
        source=section.get("source", _address, "", required=True, allowed="an IPv4 or IPv6 address"),
        port=section.get("port", whole(1, 65535), 0),
        ssid=section.get("ssid", _ssid, None, required=True, allowed="1 to 65535, or any"),
        key=section.get("key", _key, ""),
        stateless=section.get("stateless", boolean, False),
        timestamps=section.get("timestamps", choice("ntp", "ptp"), "ntp"),
        mark=section.get("mark", boolean, True),
        max_pps=section.get("rate", _rate, DEFAULT_PPS),
        until_ns=section.get("until", _instant, None),
    )
    for number, other in enumerate(before, 1):
        if session.source and (other.source, other.port, other.ssid) == (session.source, session.port, session.ssid):
            section.complain("source", f"the same sender as sessions#{number}", "another source, port or ssid")
        if session.name and other.name == session.name:
            section.complain("name", f"{session.name!r} is the name of sessions#{number} too", "a name of its own")
    section.close()
    return session


def _name(value: str) -> str:
    words = text(value)
    if len(words) > _MAX_NAME or not words.isprintable():
        raise InputError(f"{words[:40]!r} is no name for people", f"printable text of at most {_MAX_NAME} characters")
    return words


def _address(value: str) -> str:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        raise InputError(f"{value!r} is no address", "a numeric IPv4 or IPv6 address") from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise InputError(
            f"{value!r} is an IPv4 address written as one of IPv6", f"the IPv4 address, {address.ipv4_mapped}"
        )
    return str(address)


def _ssid(value: str) -> int | None:
    return None if value == "any" else whole(0, 65535)(value)


def _key(value: str) -> str:
    if not re.fullmatch(r"([0-9A-Fa-f]{2})+", value) or len(value) > 2 * _MOST_KEY_BYTES:
        raise InputError("this is no key", f"hexadecimal digits of 1 to {_MOST_KEY_BYTES} octets, better of 32")
    return value.lower()


def _rate(value: str) -> int:
    rate = parse_packet_rate(value)
    if not 1 <= rate <= _MOST_PPS:
        raise InputError(f"{value!r} is no rate to serve", f"1 to {_MOST_PPS:,} packets a second")
    return rate


def _instant(value: str) -> int:
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise InputError(f"{value!r} is no instant", "date, time and zone, like 2026-12-31T00:00:00Z")
    return round(instant.timestamp()) * NS_PER_S
