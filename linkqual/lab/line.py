"""Lines by name or file: YAML text -> `Line`, with every complaint as file:line: key; docs/lines.md is the user's page. Floor 3.

Every node and link named in the paths exists by being named; `routers` and `links` only say what is special about some of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from linkqual.errors import InputError, UsageError
from linkqual.impair import Distribution, Impairment, Jitter, Loss, Rate, Reordering
from linkqual.lab.description import Expect, Line, LineLink, Node
from linkqual.link import READERS as LINK_READERS
from linkqual.model import Direction, Link
from linkqual.settings import Complaints, Listing, Mapping, Section, boolean, choice, decode, read_tree, text, whole
from linkqual.units import format_duration, parse_duration_ns, parse_rate_bps, parse_ratio, parse_size_bytes
from linkqual.wire.codepoints import parse_dscp

__all__ = ["DEFAULT", "Line", "load", "names", "parse"]

HINT = "docs/lines.md shows a whole line description"
DEFAULT = "clean"
MAX_NODES = 40


def names() -> tuple[str, ...]:
    """Names of the lines that come with linkqual."""
    folder = resources.files("linkqual.lab") / "lines"
    found = sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))
    return tuple(sorted(found, key=lambda name: name != DEFAULT))


def load(name: str = DEFAULT) -> Line:
    """A shipped line by its name, or the line described in the file of that path. UsageError, InputError."""
    if name in names():
        source = (resources.files("linkqual.lab") / "lines" / f"{name}.yaml").read_text("utf-8")
        return parse(source, f"{name}.yaml")
    path = Path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        if os.sep not in name and not path.suffix:
            raise UsageError(
                f"no line is called {name!r}", f"one of {', '.join(names())}, or the path of a YAML file"
            ) from None
        raise InputError(f"cannot be read: {error.strerror}", "the path of a line description", name) from None
    return parse(decode(data, name), name)


def parse(source: str, name: str) -> Line:
    """The line described in `source`, text of a file called `name`. InputError lists everything that is wrong with it."""
    complaints = Complaints(name, HINT)
    root = Section(read_tree(source, complaints), "", complaints)
    stem = Path(name).stem
    title = root.get("title", text, stem)
    about = root.get("about", text, "")
    sites = _named(root, "sites")
    if len(sites) != 2:
        root.complain("sites", f"names {len(sites)} sites", "two: [near, far]")
        complaints.raise_any()
    forward = (sites[0], *_named(root, "forward"), sites[-1])
    back = _named(root, "reverse") if root.has("reverse") else tuple(reversed(forward[1:-1]))
    reverse = (sites[-1], *back, sites[0])
    _check_paths(root, forward, reverse)
    complaints.raise_any()  # everything below speaks of nodes and links of the paths
    nodes = _nodes(root, forward, reverse)
    links = _links(root, forward, reverse)
    contract = _contract(root, sites)
    expect = _expect(root)
    seed = root.get("seed", whole(0, 2**63 - 1), 1)
    root.close()
    complaints.raise_any()
    return Line(stem, title, about, nodes, links, forward, reverse, contract, expect, seed)


# ---- nodes and paths


def _node_name(value: str) -> str:
    word = text(value)
    if len(word) > 40 or not word.isprintable() or "/" in word or word[0] in "-.#":
        raise InputError(
            f"{word[:40]!r} is no name of a node", "up to 40 printable characters without '/', not beginning with - . #"
        )
    return word


def _named(root: Section, key: str) -> tuple[str, ...]:
    if not root.has(key):
        root.complain(key, "is missing")
    return root.get_list(key, _node_name, ())


def _check_paths(root: Section, forward: tuple[str, ...], reverse: tuple[str, ...]) -> None:
    for key, path in (("forward", forward), ("reverse", reverse)):
        if len(set(path)) < len(path):
            twice = next(node for node in path if path.count(node) > 1)
            root.complain(
                key, f"{twice!r} stands on the path twice", "every node once; the two sites are added by themselves"
            )
        if len(path) < 3:
            root.complain(key, "has no router", "at least one router between the two sites")
    if len({*forward, *reverse}) > MAX_NODES:
        root.complain("forward", f"the line has {len({*forward, *reverse})} nodes", f"at most {MAX_NODES}")


def _nodes(root: Section, forward: tuple[str, ...], reverse: tuple[str, ...]) -> tuple[Node, ...]:
    ends = (forward[0], forward[-1])
    routers = list(dict.fromkeys((*forward[1:-1], *reverse[1:-1])))
    nodes = {name: Node(name, site=name in ends) for name in (*ends, *routers)}
    section = root.section("routers")
    for name in section.node.items if section else ():
        assert section is not None
        section.has(name)
        if name not in routers:
            section.complain(name, "stands on no path", ", ".join(routers))
            continue
        one = section.section(name)
        if one is not None:
            silent, interval = one.get("icmp", _icmp, (False, 0))
            nodes[name] = replace(nodes[name], silent=silent, icmp_interval_ns=interval)
            one.close()
    return tuple(nodes.values())


def _icmp(value: str) -> tuple[bool, int]:
    """(silent, interval): "always", "never", "one in 500 ms"."""
    if value == "never":
        return True, 0
    if value == "always":
        return False, 0
    if value.startswith("one in "):
        interval = parse_duration_ns(value.removeprefix("one in "))
        if 10**6 <= interval <= 60 * 10**9:  # the kernel never lets the first one out of a longer one
            return False, interval
    raise InputError(f"{value!r} is no ICMP behaviour", "always, never, or 'one in 500 ms' (1 ms to 60 s)")


# ---- links


def _links(root: Section, forward: tuple[str, ...], reverse: tuple[str, ...]) -> tuple[LineLink, ...]:
    on_forward = list(pairwise(forward))
    on_reverse = list(pairwise(reverse))
    links: dict[frozenset[str], LineLink] = {}
    for a, b in (*on_forward, *((b, a) for a, b in on_reverse)):
        links.setdefault(frozenset((a, b)), LineLink(a, b))
    listing = root.raw("links")
    if listing is not None and not isinstance(listing, Listing):
        root.complain("links", "is no list", "a list of '- between: [a, b]' with what happens there")
    described: set[frozenset[str]] = set()
    for number, node in enumerate(listing.items if isinstance(listing, Listing) else (), 1):
        section = root.as_section(node, f"links#{number}")
        if section is None:
            continue
        pair = section.get_list("between", _node_name, ())
        key = frozenset(pair)
        if key not in links or key in described:
            known = ", ".join(f"[{link.a}, {link.b}]" for link in links.values())
            section.complain("between", "is described twice" if key in described else "is no link of the paths", known)
            section.has("mtu"), section.has("both"), section.has("forward"), section.has("reverse")
            section.close()
            continue
        described.add(key)
        links[key] = _link(section, links[key], set(on_forward), set(on_reverse))
    return tuple(links.values())


def _link(
    section: Section, link: LineLink, on_forward: set[tuple[str, str]], on_reverse: set[tuple[str, str]]
) -> LineLink:
    mtu = section.get("mtu", _mtu, link.mtu)
    both = _impairment(section, "both", Impairment())
    sides: dict[tuple[str, str], Impairment] = {}
    for key, crossed in (("forward", on_forward), ("reverse", on_reverse)):
        here = crossed & {(link.a, link.b), (link.b, link.a)}
        if section.has(key) and not here:
            section.complain(key, f"the {key} path does not cross this link", "the direction that crosses it, or both")
            _impairment(section, key, both)
        elif here:
            sides[here.pop()] = _impairment(section, key, both)
    section.close()
    there, back = sides.get((link.a, link.b)), sides.get((link.b, link.a))
    if there is None:  # no path crosses it in this sense, ICMP errors may: it is as long as the other way
        there = Impairment(delay_ns=back.delay_ns if back else 0)
    if back is None:
        back = Impairment(delay_ns=there.delay_ns)
    return replace(link, mtu=mtu, there=there, back=back)


def _impairment(parent: Section, key: str, start: Impairment) -> Impairment:
    """What one direction does; what it does not say is as in `start`."""
    section = parent.section(key)
    if section is None:
        return start
    found: dict[str, Any] = {}
    if section.has("delay"):
        found["delay_ns"] = section.get("delay", _delay, 0)
    if section.has("duplicate"):
        found["duplicate"] = section.get("duplicate", parse_ratio, 0.0)
    if section.has("ecn"):
        found["bleach"] = section.get("ecn", choice("keep", "bleach"), "keep") == "bleach"
    parts: tuple[tuple[str, str, Callable[[Section], Any]], ...] = (
        ("jitter", "jitter", _jitter),
        ("loss", "loss", _loss),
        ("reorder", "reordering", _reordering),
        ("rate", "rate", _rate),
        ("remark", "remark", _remark),
    )
    for name, attribute, read in parts:
        inner = section.section(name) if section.has(name) else None
        if inner is not None:
            found[attribute] = read(inner)
            inner.close()
    section.close()
    return replace(start, **found)


def _mtu(value: str) -> int:
    size = parse_size_bytes(value)
    if not 1280 <= size <= 9216:
        raise InputError(f"{value!r} is no MTU of a link", "1280 (the least IPv6 allows) to 9216")
    return size


def _delay(value: str) -> int:
    delay = parse_duration_ns(value)
    if delay > 2 * 10**9:
        raise InputError(f"{format_duration(delay)} is no delay of a link", "0 ms to 2 s")
    return delay


def _jitter(section: Section) -> Jitter:
    return Jitter(
        distribution=Distribution(section.get("distribution", choice(*Distribution), "uniform")),
        spread_ns=section.get("spread", _delay, 0, required=True),
        keep_order=section.get("keep_order", boolean, True),
        hold_ns=section.get("hold", parse_duration_ns, 0),
    )


def _loss(section: Section) -> Loss:
    kinds = [key for key in ("ratio", "every", "positions") if section.has(key)]
    if len(kinds) != 1:
        section.complain(
            "ratio", f"{len(kinds)} kinds of loss are given", "one of ratio (with burst), every, positions"
        )
    ratio = section.get("ratio", parse_ratio, 0.0)
    burst = section.get("burst", _burst, 1.0)
    if ratio > 0.9:
        section.complain("ratio", f"{ratio:g} leaves no line", "0 to 0.9")
    elif burst > 1 and ratio / (1 - ratio) > burst:
        section.complain(
            "burst", f"{burst:g} is too short for a loss ratio of {ratio:g}", f"{ratio / (1 - ratio):.3g} or more"
        )
    if section.has("burst") and "ratio" not in kinds:
        section.complain("burst", "belongs to a ratio", "ratio and burst together")
    positions = section.get_list("positions", whole(0, 2**40), ())
    return Loss(ratio, burst, section.get("every", whole(1, 2**40), 0), positions)


def _burst(value: str) -> float:
    try:
        burst = float(value)
    except ValueError:
        burst = 0.0
    if not 1 <= burst <= 1e6:
        raise InputError(
            f"{value!r} is no mean burst", "packets lost in a row on average, 1 (independent) to 1,000,000"
        )
    return burst


def _reordering(section: Section) -> Reordering:
    return Reordering(
        ratio=section.get("ratio", parse_ratio, 0.0, required=True),
        by_ns=section.get("by", _delay, 0, required=True),
    )


def _rate(section: Section) -> Rate:
    kind = section.get("kind", choice("shaper", "policer"), "shaper")
    if kind == "policer" and section.has("buffer"):
        section.complain("buffer", "a policer has none", "bucket")
    return Rate(
        bps=section.get("limit", _bps, 10**8, required=True),
        policer=kind == "policer",
        bucket_bytes=section.get("bucket", _bucket, 16_000),
        buffer_bytes=section.get("buffer", _bucket, 500_000),
        counts=section.get("counts", choice("l1", "l2", "l3"), "l1"),
    )


def _remark(section: Section) -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for name in section.node.items:
        to = section.get(name, parse_dscp, 0)
        try:
            dscp = parse_dscp(name)
        except InputError as error:
            section.complain(name, error.message, error.hint)
            continue
        if dscp in found:
            section.complain(name, "is a DSCP that stands here already", "each once")
        found[dscp] = to
    return tuple(found.items())


def _bps(value: str) -> int:
    rate = parse_rate_bps(value)
    if not 10**5 <= rate <= 10**11:
        raise InputError(f"{value!r} is no rate of a link", "100 kbit/s to 100 Gbit/s")
    return rate


def _bucket(value: str) -> int:
    size = parse_size_bytes(value)
    if not 3_000 <= size <= 10**9:
        raise InputError(f"{value!r} is no depth of a bucket or buffer", "3000 B (two packets) to 1 GB")
    return size


# ---- contract and truth


def _contract(root: Section, sites: tuple[str, ...]) -> Link:
    section = root.section("link")
    found: dict[str, Any] = {"near": sites[0], "far": sites[-1]}
    if section is not None:
        for key, (attribute, read) in LINK_READERS.items():
            if section.has(key):
                found[attribute] = section.get(key, read, None)
        section.close()
    return Link(**{key: value for key, value in found.items() if value is not None})


def _expect(root: Section) -> Expect:
    section = root.section("expect")
    if section is None:
        return Expect()
    verdict: dict[str, str] = {}
    verdicts = section.section("verdict")
    for profile in verdicts.node.items if verdicts else ():
        assert verdicts is not None
        verdict[profile] = verdicts.get(profile, choice("pass", "fail", "inconclusive"), "")
    expect = Expect(
        rtt_ns=section.get("rtt", parse_duration_ns, None) if section.has("rtt") else None,
        loss=_by_direction(section, "loss", parse_ratio),
        goodput_bps=_by_direction(section, "goodput", parse_rate_bps),
        verdict=verdict,
    )
    section.close()
    return expect


def _by_direction(parent: Section, key: str, read: Callable[[str], Any]) -> dict[Direction, Any]:
    """One value for both directions, or a mapping with forward and reverse."""
    node = parent.raw(key)
    if node is None:
        return {}
    if not isinstance(node, Mapping):
        value = parent.value(key, node, read, None)
        return {Direction.FORWARD: value, Direction.REVERSE: value}
    section = parent.as_section(node, parent.label(key))
    assert section is not None
    found = {
        way: section.get(way.value, read, None)
        for way in (Direction.FORWARD, Direction.REVERSE)
        if section.has(way.value)
    }
    section.close()
    return found
