"""The services of a link file: bandwidth profile, frame sizes, acceptance criteria."""

from __future__ import annotations

import pytest

from linkqual.errors import InputError
from linkqual.link import parse
from linkqual.model import Direction, Service

FULL = """
link:
  cir: 200 Mbit/s
  mtu: 1500
  services:
    - name: storage
      cir: 100 Mbit/s
      cir_reverse: 40M
      eir: 20 Mbit/s
      counts: l2
      frame_sizes: {64: 7, 594: 4, 1518: 1}
      dscp: AF31
      acceptance: {flr: 1e-5, ftd: 12 ms, fdv: 500 us, availability: 99.9 %}
    - {name: voice, cir: 2 Mbit/s, frame_sizes: [128, 64], dscp: EF}
"""


def test_every_field() -> None:
    storage, voice = parse(FULL, "l.yaml").services
    assert storage == Service(
        "storage", 100_000_000, 40_000_000, 20_000_000, "l2", ((46, 7), (576, 4), (1500, 1)), 26,
        flr=1e-5, ftd_ns=12_000_000, fdv_ns=500_000, availability=0.999,
    )  # fmt: skip
    assert voice == Service("voice", 2_000_000, sizes=((46, 1), (110, 1)), dscp=46)
    assert storage.committed_bps(Direction.REVERSE) == 40_000_000
    assert voice.committed_bps(Direction.REVERSE) == 2_000_000


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ("EMIX", (46, 110, 238, 1006, 1500)),
        ("emix aah", (46, 9000)),
        ("1518", (1500,)),
    ],
)
def test_mixes_by_name(words: str, sizes: tuple[int, ...]) -> None:
    (service,) = parse(f"link:\n  mtu: 9000\n  services:\n  - {{name: x, cir: 1M, frame_sizes: {words}}}", "l").services
    assert tuple(size for size, _ in service.sizes) == sizes
    assert sum(weight for _, weight in service.sizes) == (3 if "aah" in words else len(sizes))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("services: x", "2: link.services: is no list of services; allowed: 1 to 10 of them, each '- name: ...'"),
        ("services: [{cir: 1M}]", "2: link.services#1.name: is missing; allowed: a name"),
        ("services: [{name: a}]", "2: link.services#1.cir: is missing; allowed: a rate such as 100 Mbit/s"),
        ("services: [{name: a, cir: 1M, acceptance: {flr: 0}}]",
         "2: link.services#1.acceptance.flr: '0' is out of range; allowed: 1e-12 to 50 %: a ratio of 0 is proven by no number of frames"),
        ("services: [{name: a, cir: 1M, frame_sizes: 63}]",
         "2: link.services#1.frame_sizes: '63' is no size of a frame; allowed: 64 to 9234 octets of an Ethernet frame with its FCS"),
        ("mtu: 1500\n  services: [{name: a, cir: 1M, frame_sizes: [64, 1519]}]",
         "3: link.services#1.frame_sizes: '1519': a packet of that frame does not fit the MTU of 1500 B; allowed: up to 1518"),
        ("services: [{name: a, cir: 1M, frame_sizes: EMIX ah}]",
         "2: link.services#1.frame_sizes: EMIX knows no 'h' here; allowed: a (64), b (128), c (256), d (512), e (1024), f (1280), g (1518), "
         "h (the MTU, where mtu is given)"),
        ("services: [{name: a, cir: 1M}, {name: a, cir: 1M}]",
         "2: link.services#2.name: 'a' is the name of two services; allowed: each its own"),
        ("cir: 10M\n  services: [{name: a, cir: 6M}, {name: b, cir: 6M}]",
         "3: link.services: their CIRs together exceed the line's cir; allowed: what the line carries, or a higher cir"),
        ("services: [{name: a, cir: 1M, cri: 2M}]",
         "2: link.services#1.cri: unknown key, did you mean 'cir'?; allowed: name, cir, cir_reverse, eir, counts, frame_sizes, dscp, acceptance"),
    ],
)  # fmt: skip
def test_complaints(text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(f"link:\n  {text}", "l.yaml")
    assert str(caught.value).splitlines() == [f"l.yaml:{complaint}"]
