"""The links of a line description, read: what each direction of each does. Floor 3, pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from linkqual.bottleneck import Rate
from linkqual.errors import InputError
from linkqual.impair import Distribution, Impairment, Jitter, Loss, Reordering
from linkqual.lab.description import LineLink
from linkqual.settings import Listing, Section, boolean, choice, real, text, whole
from linkqual.units import (
    format_duration,
    format_rate,
    parse_duration_ns,
    parse_rate_bps,
    parse_ratio,
    parse_size_bytes,
)
from linkqual.wire.codepoints import parse_dscp

MAX_MEMBERS = 16


def node_name(value: str) -> str:
    """The name of a node; InputError."""
    word = text(value)
    if len(word) > 40 or not word.isprintable() or "/" in word or word[0] in "-.#":
        raise InputError(
            f"{word[:40]!r} is no name of a node", "up to 40 printable characters without '/', not beginning with - . #"
        )
    return word


def read_links(root: Section, forward: tuple[str, ...], reverse: tuple[str, ...]) -> tuple[LineLink, ...]:
    """Every link of the two paths, described or not; complaints are left with the section."""
    on_forward = list(pairwise(forward))
    on_reverse = list(pairwise(reverse))
    links: dict[frozenset[str], LineLink] = {}
    for a, b in (*on_forward, *((b, a) for a, b in on_reverse)):
        links.setdefault(frozenset((a, b)), LineLink(a, b))
    listing = root.raw("links")
    if listing is not None and not isinstance(listing, Listing):
        root.complain("links", "is no list", "a list of '- between: [a, b]' with what happens there")
    described: set[frozenset[str]] = set()
    sites = (forward[0], forward[-1])
    for number, node in enumerate(listing.items if isinstance(listing, Listing) else (), 1):
        section = root.as_section(node, f"links#{number}")
        if section is None:
            continue
        pair = section.get_list("between", node_name, ())
        key = frozenset(pair)
        if key not in links or key in described:
            known = ", ".join(f"[{link.a}, {link.b}]" for link in links.values())
            section.complain("between", "is described twice" if key in described else "is no link of the paths", known)
            section.has("mtu"), section.has("both"), section.has("forward"), section.has("reverse")
            section.close()
            continue
        described.add(key)
        links[key] = _link(section, links[key], set(on_forward), set(on_reverse), sites)
    return tuple(links.values())


def _link(
    section: Section,
    link: LineLink,
    on_forward: set[tuple[str, str]],
    on_reverse: set[tuple[str, str]],
    sites: tuple[str, str],
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
            sides[pair := here.pop()] = side = _impairment(section, key, both)
            if side.rate and pair[0] in sites:
                section.complain(
                    key if section.has(key) else "both",
                    f"has the rate where {pair[0]!r} itself sends, whose kernel may pass many packets on as one",
                    "the rate on a link between routers",
                )
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
    done = replace(start, **found)
    if done.loss.member > (done.rate.members if done.rate and done.rate.members > 1 else 0):
        section.complain(
            "loss", f"is that of member {done.loss.member}", "a member of this direction's rate, counted from 1"
        )
    section.close()
    return done


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
    member = section.get("member", whole(1, MAX_MEMBERS), 0)
    return Loss(ratio, burst, section.get("every", whole(1, 2**40), 0), positions, member)


_burst = real(1, 1e6, "mean burst", "packets lost in a row on average, 1 (independent) to 1,000,000")


def _reordering(section: Section) -> Reordering:
    return Reordering(
        ratio=section.get("ratio", parse_ratio, 0.0, required=True),
        by_ns=section.get("by", _delay, 0, required=True),
    )


def _rate(section: Section) -> Rate:
    kind = section.get("kind", choice("shaper", "policer"), "shaper")
    if kind == "policer" and section.has("buffer"):
        section.complain("buffer", "a policer has none", "bucket")
    rate = Rate(
        bps=section.get("limit", _bps, 10**8, required=True),
        policer=kind == "policer",
        bucket_bytes=section.get("bucket", _bucket, 16_000),
        counts=section.get("counts", choice("l1", "l2", "l3"), "l1"),
        per_flow_bps=section.get("per_flow", _bps, 0),
        members=section.get("members", whole(2, MAX_MEMBERS), 1),
    )
    if rate.members > 1 and rate.per_flow_bps:
        section.complain("per_flow", "stands beside members", "one of both; the other on another link")
    if rate.per_flow_bps > rate.bps:
        section.complain("per_flow", f"is more than the limit of all, {format_rate(rate.bps)}", "less than limit")
    return replace(rate, buffer_bytes=section.get("buffer", _buffer(rate), 500_000))


def _buffer(rate: Rate) -> Callable[[str], int]:
    """Reads a depth in bytes, or in time at the rate that one flow meets."""

    def read(value: str) -> int:
        if value.endswith("s"):
            depth = parse_duration_ns(value) * rate.of_one.bps // (8 * 10**9)
            if not 3_000 <= depth <= 10**9:
                raise InputError(
                    f"{value!r} is no depth of a buffer at {format_rate(rate.of_one.bps)}",
                    "3000 B (two packets) to 1 GB",
                )
            return depth
        return _bucket(value)

    return read


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
