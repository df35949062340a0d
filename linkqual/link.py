"""The line under test as contracted: a `link:` file (YAML 1.2) or command line options -> `model.Link`.

    link:
      name: Shanghai - Zhongwei 2
      vendor: Example Carrier
      cir: 10 Gbit/s            # contracted rate near -> far
      cir_reverse: 10 Gbit/s    # far -> near, when it differs
      rate_counts: l1           # what that rate counts: l1 (preamble, gap, FCS), l2 (frame with FCS), l3 (IP)
      mtu: 9000
      rtt_budget: 12 ms
      near: Shanghai            # the end where the command is typed
      far: Zhongwei
      fibre: 1200 km            # length of the fibre: bounds how far both directions can differ, without any clock
      in_service: true          # others' traffic is on it now: loads are asked about first, and searches for its limit refused
      encapsulation: macsec     # what the line wraps packets in (a list, innermost first): names of `stats.overhead.KINDS`
      services: ...             # what is contracted on it, each with its own rates and criteria: `link_services`
      segments: ...             # the parts it is made of and who supplies each: `link_segments`

Floor 2, pure: the caller reads the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from linkqual import link_segments, link_services
from linkqual.errors import InputError
from linkqual.model import Link
from linkqual.settings import Complaints, Section, boolean, choice, read_tree, text
from linkqual.stats.overhead import KINDS
from linkqual.units import parse_duration_ns, parse_rate_bps, parse_size_bytes

MAX_NAME = 200
MAX_FIBRE_KM = 50_000


def _words(value: str) -> str:
    words = text(value)
    if len(words) > MAX_NAME or not words.isprintable():
        raise InputError(f"{words[:40]!r} is no name for people", f"printable text of at most {MAX_NAME} characters")
    return words


def _rate(value: str) -> int:
    rate = parse_rate_bps(value)
    if not 1_000 <= rate <= 10**14:
        raise InputError(f"{value!r} is no rate of a line", "1 kbit/s to 100 Tbit/s")
    return rate


def _mtu(value: str) -> int:
    mtu = parse_size_bytes(value)
    if not 576 <= mtu <= 65_535:
        raise InputError(f"{value!r} is no MTU of a line", "576 to 65535 bytes, IP header included")
    return mtu


def _budget(value: str) -> int:
    budget = parse_duration_ns(value)
    if not 0 < budget <= 10 * 10**9:
        raise InputError(f"{value!r} is no round-trip budget", "more than 0, at most 10 s")
    return budget


def _length(value: str) -> float:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)\s*(km|m)", value.strip())
    length = float(match[1]) / (1 if match[2] == "km" else 1000) if match else 0.0
    if not 0 < length <= MAX_FIBRE_KM:
        raise InputError(f"{value!r} is no length of a fibre", f"such as 1200 km, at most {MAX_FIBRE_KM} km")
    return length


READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", _words),
    "vendor": ("vendor", _words),
    "cir": ("cir_bps", _rate),
    "cir_reverse": ("cir_reverse_bps", _rate),
    "rate_counts": ("rate_counts", choice("l1", "l2", "l3")),
    "mtu": ("mtu", _mtu),
    "rtt_budget": ("rtt_budget_ns", _budget),
    "near": ("near", _words),
    "far": ("far", _words),
    "fibre": ("fibre_km", _length),
    "in_service": ("in_service", boolean),
}
KEYS = (*READERS, "encapsulation", "services", "segments")
HINT = f"a link file holds one key, 'link:', with any of {', '.join(KEYS)} below it"


def parse(source: str, name: str) -> Link:
    """The link in `source` (text of a YAML file called `name`); InputError lists everything that is wrong with it."""
    complaints = Complaints(name, HINT)
    root = Section(read_tree(source, complaints), "", complaints)
    if not root.has("link"):
        complaints.add(root.node.line, "link", "is missing: the facts of the line stand below this key", "link:")
    section = root.section("link")
    link = read(section) if section is not None else Link()
    root.close()
    complaints.raise_any()
    return link


def read(section: Section, **default: str) -> Link:
    """The link that a section `link:` describes, of a link file or of a line of the lab; complaints are left with the section."""
    found: dict[str, Any] = dict(default)
    for key, (field, reader) in READERS.items():
        if section.has(key):
            found[field] = section.get(key, reader, None)
    if wrappings := section.get_list("encapsulation", choice(*KINDS), ()):
        found["encapsulation"] = wrappings
    if "cir_reverse_bps" in found and "cir_bps" not in found:
        section.complain("cir_reverse", "stands without cir, the rate of the other direction", "both, or cir alone")
    found["services"] = link_services.read(section, Link(**found))
    found["segments"] = link_segments.read(section, _words, _rate)
    section.close()
    return Link(**found)


def override(link: Link, **given: str | None) -> Link:
    """`link` with what the command line gives, which wins: keys as in the file, values as typed, None where not given.

    InputError names the option: "--rtt-budget: '12': ...".
    """
    found: dict[str, Any] = {}
    for key, value in given.items():
        if value is None:
            continue
        field, read = READERS[key]
        try:
            found[field] = read(value)
        except InputError as error:
            raise InputError(error.message, error.hint, f"--{key.replace('_', '-')}") from None
    return replace(link, **found)


def known(link: Link) -> tuple[str, ...]:
    """Names of the fields that are known, the link's own name left out."""
    default = Link()
    return tuple(
        one.name for one in fields(Link) if one.name != "name" and getattr(link, one.name) != getattr(default, one.name)
    )
