"""Lines by name or file: YAML text -> `Line`, with every complaint as file:line: key; docs/lines.md is the user's page. Floor 3.

Every node and link named in the paths exists by being named; `routers` and `links` only say what is special about some of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from linkqual.errors import InputError, UsageError
from linkqual.lab.description import CAUSES, Expect, Line, Node
from linkqual.lab.links import node_name, read_links
from linkqual.link import read as read_link
from linkqual.model import Direction, Link
from linkqual.settings import Complaints, Mapping, Section, choice, decode, read_tree, text, whole
from linkqual.units import parse_duration_ns, parse_rate_bps, parse_ratio, parse_size_bytes

__all__ = ["DEFAULT", "Line", "load", "names", "parse"]

HINT = "docs/lines.md shows a whole line description"
DEFAULT = "clean"
MAX_NODES = 40
# what 16 bits and a window scale (RFC 7323) hold at most; the kernel keeps no limit between two of them
WINDOWS = tuple(65_536 << scale for scale in range(9))


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
    links = read_links(root, forward, reverse)
    contract = _contract(root, sites)
    expect = _expect(root)
    seed = root.get("seed", whole(0, 2**63 - 1), 1)
    root.close()
    complaints.raise_any()
    return Line(stem, title, about, nodes, links, forward, reverse, contract, expect, seed)


# ---- nodes and paths


def _named(root: Section, key: str) -> tuple[str, ...]:
    if not root.has(key):
        root.complain(key, "is missing")
    return root.get_list(key, node_name, ())


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
    for name, one in _described(root, "routers", routers, "stands on no path"):
        silent, interval = one.get("icmp", _icmp, (False, 0))
        hides = one.get("too_big", choice("tell", "hide"), "tell") == "hide"
        nodes[name] = replace(nodes[name], silent=silent, icmp_interval_ns=interval, hides_mtu=hides)
    for name, one in _described(root, "hosts", ends, "is no site"):
        nodes[name] = replace(nodes[name], window_bytes=one.get("window", _window, 0))
    return tuple(nodes.values())


def _described(root: Section, key: str, known: Sequence[str], unknown: str) -> Iterator[tuple[str, Section]]:
    """The nodes that stand under a key, each with what is written of it; `unknown`: the complaint about any other."""
    section = root.section(key)
    for name in section.node.items if section else ():
        assert section is not None
        section.has(name)
        if name not in known:
            section.complain(name, unknown, ", ".join(known))
        elif (one := section.section(name)) is not None:
            yield name, one
            one.close()


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


def _window(value: str) -> int:
    size = parse_size_bytes(value)
    if size not in WINDOWS:
        raise InputError(f"{value!r} is no window of a host", "64 KiB, 128 KiB, 256 KiB and so on to 16 MiB")
    return size


# ---- contract and truth


def _contract(root: Section, sites: tuple[str, ...]) -> Link:
    section = root.section("link")
    near, far = sites[0], sites[-1]
    return read_link(section, near=near, far=far) if section is not None else Link(near=near, far=far)


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
        cause=_by_direction(section, "cause", choice(*CAUSES)),
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
