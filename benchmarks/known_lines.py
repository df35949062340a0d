"""Seeded random lines of every kind a diagnosis must tell apart, as line descriptions. Used by benchmarks/causes.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from linkqual.bottleneck import Rate
from linkqual.lab.line import Line
from linkqual.model import Direction

Chance = np.random.Generator

_LINE = """title: {kind} {number}
sites: [near-site, far-site]
forward: [cpe-near, core, cpe-far]
{hosts}link: {{name: {kind} {number}, cir: {contract} kbit/s, mtu: 1500, rtt_budget: {budget} us}}
links:
  - between: [cpe-near, core]
    forward: {{delay: {delay} us, {forward}}}
    reverse: {{delay: {delay} us, {reverse}}}
expect: {{cause: {{{cause}}}}}
seed: {seed}
"""


@dataclass(frozen=True)
class Kind:
    """What the odd direction of a line does, and how far the line is."""

    forward: str
    cause: str = ""  # of the forward direction; "": it carries what was contracted
    delay_us: int = 0  # one way; 0: drawn
    hosts: str = ""
    reverse: str = ""  # "": the contract, well shaped
    reverse_cause: str = ""


def _size(chance: Chance, low: float, high: float) -> int:
    """Evenly over the logarithm, as sizes of buckets are."""
    return round(float(np.exp(chance.uniform(np.log(low), np.log(high)))))


def _well_shaped(kbps: int, chance: Chance) -> str:
    return f"rate: {{limit: {kbps} kbit/s, bucket: {_size(chance, 16e3, 64e3)}, buffer: {chance.integers(30, 120)} ms}}"


def _shaper(contract: int, chance: Chance) -> str:
    limit = round(contract * chance.uniform(0.5, 0.85))
    return f"rate: {{limit: {limit} kbit/s, bucket: {_size(chance, 16e3, 1e6)}, buffer: {_size(chance, 5, 200)} ms}}"


def _shaped(contract: int, chance: Chance) -> Kind:
    return Kind(_shaper(contract, chance), "shaper")


def _policed(contract: int, chance: Chance) -> Kind:
    limit = round(contract * chance.uniform(0.5, 0.85))
    return Kind(f"rate: {{limit: {limit} kbit/s, kind: policer, bucket: {_size(chance, 50e3, 1e6)}}}", "policer")


def _capped(contract: int, chance: Chance) -> Kind:
    cap = max(8_000, round(contract / chance.uniform(4, 12)))
    return Kind(
        f"rate: {{limit: {contract} kbit/s, per_flow: {cap} kbit/s, buffer: {chance.integers(20, 100)} ms}}",
        "per-flow cap",
    )


def _bundled(contract: int, chance: Chance) -> Kind:
    return Kind(f"rate: {{limit: {contract} kbit/s, members: 4, buffer: {chance.integers(20, 100)} ms}}", "hashing")


def _windowed(contract: int, chance: Chance) -> Kind:
    """A window that holds less than half of the contract at 20 to 40 ms one way."""
    delay = int(chance.integers(20_000, 40_000))
    wanted = contract * 1000 / 8 * 2 * delay / 1e6  # bytes under way at the contracted rate
    window = max(size for size in (64, 128, 256, 512) if size == 64 or size * 1024 < wanted / 2)
    return Kind(_well_shaped(contract, chance), "window", delay, f"hosts: {{far-site: {{window: {window} KiB}}}}\n")


def _lossy(contract: int, chance: Chance) -> Kind:
    return Kind(f"{_well_shaped(contract, chance)}, loss: {{ratio: 1e-3}}", "loss", 30_000)


def _uneven(contract: int, chance: Chance) -> Kind:
    return Kind(_well_shaped(contract, chance), reverse=_shaper(contract, chance), reverse_cause="shaper")


def _clean(contract: int, chance: Chance) -> Kind:
    return Kind(_well_shaped(contract, chance))


# kind -> (how it is made, least contracted rate in kbit/s)
KINDS: dict[str, tuple[Callable[[int, Chance], Kind], int]] = {
    "shaper": (_shaped, 40_000),
    "policer": (_policed, 40_000),
    "flow-limit": (_capped, 80_000),
    "bundle": (_bundled, 80_000),
    "window": (_windowed, 60_000),
    "loss": (_lossy, 120_000),
    "uneven": (_uneven, 40_000),
    "clean": (_clean, 20_000),
}
TURNS = ("shaper", "policer", "flow-limit", "bundle", "window", "loss", "shaper", "policer", "uneven", "clean")


def lines(count: int, seed: int) -> list[tuple[str, str]]:
    """(kind, description) of `count` lines: the kinds in turn, everything else drawn from `seed`."""
    chance = np.random.default_rng(seed)
    return [(kind, describe(kind, number, chance)) for number, kind in zip(range(count), _turns(), strict=False)]


def _turns() -> Iterator[str]:
    while True:
        yield from TURNS


def describe(kind: str, number: int, chance: Chance) -> str:
    """The description of one line."""
    make, least = KINDS[kind]
    contract = _size(chance, least, 200_000)
    made = make(contract, chance)
    delay = made.delay_us or int(chance.integers(1_000, 12_000))
    causes = {"forward": made.cause, "reverse": made.reverse_cause}
    return _LINE.format(
        kind=kind,
        number=number,
        hosts=made.hosts,
        contract=contract,
        budget=2 * delay + 2_000,
        delay=delay,
        forward=made.forward,
        reverse=made.reverse or _well_shaped(contract, chance),
        cause=", ".join(f"{way}: {cause}" for way, cause in causes.items() if cause),
        seed=chance.integers(1, 2**31),
    )


def rate(line: Line, way: Direction) -> Rate:
    """The bucket of a direction."""
    found = line.rate(way)
    assert found
    return found
