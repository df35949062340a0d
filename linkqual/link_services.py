"""The services of a link file, each with its bandwidth profile and its acceptance criteria (ITU-T Y.1564) -> `model.Service`.

    services:
      - name: storage
        cir: 100 Mbit/s           # committed information rate
        cir_reverse: 50 Mbit/s    # far -> near, when it differs
        eir: 20 Mbit/s            # excess information rate, each way
        counts: l2                # what the rates count, when not as rate_counts of the line
        frame_sizes: [64, 1518]   # Ethernet frames with FCS; or one size, {64: 7, 1518: 1} with weights, EMIX, EMIX aceg
        dscp: AF31
        acceptance: {flr: 1e-5, ftd: 12 ms, fdv: 2 ms, availability: 99.9 %}

Floor 2, pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from linkqual.errors import InputError
from linkqual.model import Link, Service
from linkqual.session.load_phase import LONGEST, SHORTEST
from linkqual.settings import Listing, Mapping, Section, choice, text, whole
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import parse_duration_ns, parse_rate_bps, parse_ratio, parse_size_bytes
from linkqual.wire.codepoints import parse_dscp

MOST = 10  # at once in the performance test: each takes three of the 32 UDP ports an agent has (two loads, a stream)
FRAME_BYTES = OVERHEAD_BYTES["l2"]
EMIX = {"a": 64, "b": 128, "c": 256, "d": 512, "e": 1024, "f": 1280, "g": 1518}  # h: the line's MTU
EMIX_USUAL = "abceg"
ALLOWED_SIZES = f"{SHORTEST + FRAME_BYTES} to {LONGEST + FRAME_BYTES} octets of an Ethernet frame with its FCS"

Sizes = tuple[tuple[int, int], ...]


def read(section: Section, link: Link) -> tuple[Service, ...]:
    """The services below `services`; what is wrong with them becomes a complaint. `link`: the line's other facts."""
    node = section.raw("services")
    if node is None:
        return ()
    if not isinstance(node, Listing) or not 1 <= len(node.items) <= MOST:
        section.complain("services", "is no list of services", f"1 to {MOST} of them, each '- name: ...'")
        return ()
    found: list[Service] = []
    for number, item in enumerate(node.items, 1):
        inner = section.as_section(item, f"{section.label('services')}#{number}")
        if inner is None:
            continue
        service = _service(inner, link)
        if service is not None and service.name in {one.name for one in found}:
            inner.complain("name", f"{service.name!r} is the name of two services", "each its own")
        elif service is not None:
            found.append(service)
        inner.close()
    _together(section, link, found)
    return tuple(found)


def _service(section: Section, link: Link) -> Service | None:
    values: dict[str, Any] = {
        "name": section.get("name", _name, None, required=True, allowed="a name"),
        "cir_bps": section.get("cir", _rate, None, required=True, allowed="a rate such as 100 Mbit/s"),
        "cir_reverse_bps": section.get("cir_reverse", _rate, None),
        "eir_bps": section.get("eir", _rate, 0),
        "counts": section.get("counts", choice(*OVERHEAD_BYTES), link.rate_counts),
        "sizes": _sizes(section, link.mtu),
        "dscp": section.get("dscp", parse_dscp, 0),
    }
    if section.has("acceptance") and (agreed := section.section("acceptance")) is not None:
        values |= {
            "flr": agreed.get("flr", _loss, None),
            "ftd_ns": agreed.get("ftd", _delay, None),
            "fdv_ns": agreed.get("fdv", _delay, None),
            "availability": agreed.get("availability", _availability, None),
        }
        agreed.close()
    return None if values["name"] is None or values["cir_bps"] is None else Service(**values)


def _together(section: Section, link: Link, found: list[Service]) -> None:
    """All services at their CIR have room on the line, as far as both count the same."""
    for key, whole_bps, used in (
        ("cir", link.cir_bps, sum(one.cir_bps for one in found)),
        ("cir_reverse", link.cir_reverse_bps, sum(one.cir_reverse_bps or one.cir_bps for one in found)),
    ):
        if whole_bps is not None and used > whole_bps and all(one.counts == link.rate_counts for one in found):
            section.complain(
                "services", f"their CIRs together exceed the line's {key}", "what the line carries, or a higher cir"
            )


# ---- sizes


def _sizes(section: Section, mtu: int | None) -> Sizes:
    node = section.raw("frame_sizes")
    if isinstance(node, Mapping):
        inner = section.section("frame_sizes")
        assert inner is not None
        weighed = {_frame(inner, key, mtu): inner.get(key, whole(1, 1_000_000), None) for key in inner.node.items}
        found = {size: weight for size, weight in weighed.items() if size and weight}
        return tuple(sorted(found.items()))
    words = section.get_list("frame_sizes", text, ())
    if len(words) == 1 and words[0].split()[0].upper() == "EMIX":
        return _emix(section, words[0], mtu)
    sizes = Counter(size for word in words if (size := _frame(section, word, mtu, "frame_sizes")))
    return tuple(sorted(sizes.items()))


def _frame(section: Section, word: str, mtu: int | None, key: str | None = None) -> int | None:
    """Bytes of the IP packet in a frame of this size; None after a complaint."""
    try:
        octets = parse_size_bytes(word)
        if not SHORTEST <= octets - FRAME_BYTES <= LONGEST:
            raise InputError(f"{word!r} is no size of a frame", ALLOWED_SIZES)
        if mtu is not None and octets - FRAME_BYTES > mtu:
            raise InputError(
                f"{word!r}: a packet of that frame does not fit the MTU of {mtu} B", f"up to {mtu + FRAME_BYTES}"
            )
    except InputError as error:
        section.complain(key or word, error.message, error.hint)
        return None
    return octets - FRAME_BYTES


def _emix(section: Section, word: str, mtu: int | None) -> Sizes:
    letters = "".join(word.split()[1:]).lower() or EMIX_USUAL
    table = {letter: size - FRAME_BYTES for letter, size in EMIX.items()} | ({"h": mtu} if mtu else {})
    unknown = [letter for letter in letters if letter not in table]
    if unknown:
        section.complain(
            "frame_sizes",
            f"EMIX knows no {unknown[0]!r} here",
            f"{', '.join(f'{letter} ({size})' for letter, size in EMIX.items())}, h (the MTU, where mtu is given)",
        )
        return ()
    largest = max(table[letter] for letter in letters)
    if mtu is not None and largest > mtu:
        section.complain("frame_sizes", f"a packet of EMIX {letters} does not fit the MTU of {mtu} B", "smaller ones")
    return tuple(sorted(Counter(table[letter] for letter in letters).items()))


# ---- single values


def _name(value: str) -> str:
    words = text(value)
    if len(words) > 60 or not words.isprintable():
        raise InputError(f"{words[:40]!r} is no name for people", "printable text of at most 60 characters")
    return words


def _bounded(read: Callable[[object], Any], low: float, high: float, what: str) -> Callable[[str], Any]:
    def checked(value: str) -> Any:
        found = read(value)
        if not low <= found <= high:
            raise InputError(f"{value!r} is out of range", what)
        return found

    return checked


_rate = _bounded(parse_rate_bps, 1_000, 10**14, "1 kbit/s to 100 Tbit/s")
_loss = _bounded(parse_ratio, 1e-12, 0.5, "1e-12 to 50 %: a ratio of 0 is proven by no number of frames")
_delay = _bounded(parse_duration_ns, 1_000, 10 * 10**9, "1 us to 10 s")
_availability = _bounded(parse_ratio, 0.5, 1, "50 % to 100 %")
