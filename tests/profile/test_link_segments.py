"""The parts of a line in a link file: places, suppliers, and what is refused."""

from __future__ import annotations

import pytest

from linkqual.errors import InputError
from linkqual.link import parse
from linkqual.model import LineSegment

FULL = """
link:
  segments:
    - {name: access, supplier: Carrier A, from: near, to: 192.0.2.1}
    - {name: core, supplier: Carrier B, from: 192.0.2.1, to: 2001:DB8::/32, rate: 10 Gbit/s}
    - {name: campus, from: 3, to: far}
"""


def test_every_field() -> None:
    assert parse(FULL, "l.yaml").segments == (
        LineSegment("access", "near", "192.0.2.1", "Carrier A"),
        LineSegment("core", "192.0.2.1", "2001:db8::/32", "Carrier B", 10**10),
        LineSegment("campus", "3", "far"),
    )
    assert parse("link: {name: a}", "l").segments == ()


PLACES = "near, far, a router's address (192.0.2.1), a prefix (192.0.2.0/24), or the number of a hop from the near end (1 to 64)"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("segments: x", "2: link.segments: is no list of segments; allowed: 1 to 20 of them, each '- name: ...'"),
        ("segments: []", "2: link.segments: is no list of segments; allowed: 1 to 20 of them, each '- name: ...'"),
        ("segments: [{from: near, to: far}]", "2: link.segments#1.name: is missing; allowed: a name"),
        ("segments: [{name: a, to: far}]", f"2: link.segments#1.from: is missing; allowed: {PLACES}"),
        ("segments: [{name: a, from: near, to: middle}]", f"2: link.segments#1.to: 'middle' is no place on a line; allowed: {PLACES}"),
        ("segments: [{name: a, from: near, to: 10.0.0.1/24}]", f"2: link.segments#1.to: '10.0.0.1/24' is no place on a line; allowed: {PLACES}"),
        ("segments: [{name: a, from: 0, to: far}]", f"2: link.segments#1.from: '0' is no place on a line; allowed: {PLACES}"),
        ("segments: [{name: a, from: 3, to: 2}]",
         "2: link.segments#1.to: 2 does not lie beyond 3, where the segment begins; allowed: a place farther from the near end"),
        ("segments: [{name: a, from: far, to: 10.0.0.1}]", "2: link.segments#1.to: 10.0.0.1 does not lie beyond far"),
        ("segments: [{name: a, from: 10.0.0.1, to: near}]", "2: link.segments#1.to: near does not lie beyond 10.0.0.1"),
        ("segments: [{name: a, from: 10.0.0.1, to: 10.0.0.1}]", "2: link.segments#1.to: 10.0.0.1 does not lie beyond 10.0.0.1"),
        ("segments: [{name: a, from: near, to: 2}, {name: a, from: 2, to: far}]", "2: link.segments#2.name: 'a' is the name of two segments"),
        ("segments: [{name: a, from: near, to: 3}, {name: b, from: 2, to: far}]",
         "2: link.segments: 'a' and 'b' share links; allowed: segments that do not overlap"),
        ("segments: [{name: a, from: near, to: far, owner: B}]",
         "2: link.segments#1.owner: unknown key; allowed: name, from, to, supplier, rate"),
        ("segments: [{name: a, from: near, to: far, rate: fast}]", "2: link.segments#1.rate: 'fast' is no rate"),
    ],
)  # fmt: skip
def test_one_clear_line_each(text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(f"link:\n  {text}\n", "l.yaml")
    assert str(caught.value).startswith(f"l.yaml:{complaint}")
