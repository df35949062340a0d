"""Any octets give a value or the named error, never another exception: arbitrary ones, and sound ones damaged.

The same decoders run for longer, guided by what code they reach, with `make fuzz`.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.decoders import Decoder, decoders

SLOW = {"ping": 6, "settings": 15, "document": 15}  # examples; fifty of the others
INTERESTING = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, *b'{}[]",:-\n 09'])


@st.composite
def damaged(draw: st.DrawFn, seed: bytes) -> bytes:
    """A sound input with some octets changed, taken out, doubled or repeated without end, perhaps cut."""
    octets = bytearray(seed)
    for _ in range(draw(st.integers(1, 8))):
        if not octets:
            break
        place, span = draw(st.integers(0, len(octets) - 1)), draw(st.integers(1, 8))
        match draw(st.sampled_from(("set", "set", "delete", "double", "stretch"))):
            case "set":
                octets[place] = draw(st.one_of(st.integers(0, 255), INTERESTING))
            case "delete":
                del octets[place : place + span]
            case "double":
                octets[place:place] = octets[place : place + span]
            case "stretch":  # Python reads no integer of more than 4300 digits
                octets[place:place] = octets[place : place + 1] * 5000
    return bytes(octets[: draw(st.integers(0, len(octets)))] if draw(st.booleans()) else octets)


@pytest.mark.parametrize("name", decoders())
def test_sound_inputs_are_read(name: str) -> None:
    decoder = decoders()[name]
    for seed in decoder.seeds:
        decoder(seed)


@pytest.mark.parametrize("name", decoders())
def test_any_octets_give_a_value_or_the_named_error(name: str) -> None:
    decoder = decoders()[name]

    @settings(max_examples=SLOW.get(name, 50), suppress_health_check=list(HealthCheck))
    @given(st.one_of(st.binary(max_size=400), st.sampled_from(decoder.seeds).flatmap(damaged)))
    def law(data: bytes) -> None:
        decoder(data)

    law()


LONG = {"digits": b"9" * 50_000, "escapes": b'{"' + b'\\"' * 25_000, "brackets": b"[" * 50_000, "blanks": b" " * 50_000}


@pytest.mark.parametrize(
    "name", ["control", "traces", "pairing-line", "clocks", "code-points", "iperf3", "ping", "document"]
)
def test_long_texts_take_no_time_with_their_square(name: str) -> None:
    """Half a minute instead of milliseconds where one does; none is timed here."""
    decoder = decoders()[name]
    for text in LONG.values():
        for around in (text, decoder.seeds[0] + text, decoder.seeds[0].replace(b"1.2ms", text)):
            decoder(around)


def test_a_decoder_that_breaks_is_noticed() -> None:
    def breaks(data: bytes) -> int:
        return data[3]

    with pytest.raises(IndexError):
        Decoder(breaks, ())(b"abc")
