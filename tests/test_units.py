"""Units: what people write and what people read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual import units
from linkqual.errors import InputError


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("12 ms", 12_000_000),
        ("12ms", 12_000_000),
        ("1.5 s", 1_500_000_000),
        ("250us", 250_000),
        ("0.25 µs", 250),
        ("3 h", 10_800 * 10**9),
        ("1e3 ms", 10**9),
        ("2 d", 172_800 * 10**9),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert units.parse_duration_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("10G", 10**10),
        ("10 Gbit/s", 10**10),
        ("940 Mbps", 940 * 10**6),
        ("1.25 GB/s", 10**10),
        ("12.5 GB/s", 10**11),  # 100 GbE
        ("1 GiB/s", 2**30 * 8),
    ],
)
def test_rates_keep_bits_and_bytes_apart(text: str, bps: int) -> None:
    assert units.parse_rate_bps(text) == bps


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1500", 1500),
        ("1k", 1000),
        ("1kB", 1000),
        ("500M", 500 * 10**6),
        ("20G", 20 * 10**9),
        ("20 GB", 20 * 10**9),
        ("2Gi", 2**31),
        ("64 KiB", 65_536),
    ],
)
def test_sizes_are_bytes(text: str, size: int) -> None:
    assert units.parse_size_bytes(text) == size


@pytest.mark.parametrize("text", ["20 Gbit", "20g", "1 parsec"])
def test_a_size_in_no_unit_of_bytes_is_refused_and_told_which_there_are(text: str) -> None:
    with pytest.raises(InputError, match="of a size") as caught:
        units.parse_size_bytes(text)
    assert "500 MB or 20 GB" in caught.value.hint


@pytest.mark.parametrize("read", [units.parse_rate_bps, units.parse_duration_ns, units.parse_size_bytes])
def test_nothing_needs_no_unit(read: Callable[[object], int]) -> None:
    assert read("0") == read("0.0") == 0
    with pytest.raises(InputError):
        read("0 parsecs")


@pytest.mark.parametrize("text", ["12", "", "ms", "-1 ms", "12 parsecs", "nan s", "inf s", "1 2 ms", None])
def test_a_duration_without_a_sure_meaning_is_refused_with_advice(text: object) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_duration_ns(text)
    assert "write it like" in caught.value.hint


@pytest.mark.parametrize(("text", "ratio"), [("1e-5", 1e-5), ("99.99 %", 0.9999), ("10 ppm", 1e-5), ("0", 0.0)])
def test_ratios(text: str, ratio: float) -> None:
    assert units.parse_ratio(text) == ratio


@pytest.mark.parametrize("text", ["101 %", "-1e-5", "1.5", "5 per cent"])
def test_what_is_no_ratio(text: str) -> None:
    with pytest.raises(InputError):
        units.parse_ratio(text)


@pytest.mark.parametrize(
    ("text", "pps"), [("20k", 20_000), ("20 kpps", 20_000), ("1000/s", 1000), ("2M", 2_000_000), ("7", 7)]
)
def test_packet_rates_and_counts(text: str, pps: int) -> None:
    assert units.parse_packet_rate(text) == pps


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "—"),
        (0, "0 ns"),
        (850, "850 ns"),
        (11_200_000, "11.2 ms"),
        (999_990, "1 ms"),
        (-33_394, "-33.39 µs"),
        (125 * 10**9, "2 min 05 s"),
        (12_000 * 10**9, "3 h 20 min"),
        (200_000 * 10**9, "2 d 7 h"),
    ],
)
def test_durations_for_people(ns: int | None, text: str) -> None:
    assert units.format_duration(ns) == text


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (0, "100 %"),
        (1e-12, "99.9999999999 %"),
        (1.2e-5, "99.9988 %"),
        (4.9e-4, "99.951 %"),
        (1e-3, "99.9 %"),
        (1e-16, "100 %"),
    ],
)
def test_what_is_not_all_is_never_all(missing: float, text: str) -> None:
    assert units.format_ratio(1 - missing) == text


def test_other_numbers_for_people() -> None:
    assert units.format_rate(9.41e9) == "9.41 Gbit/s"
    assert units.format_ratio(7.488e-6) == "7.49e-6"
    assert units.format_ratio(0.941) == "94.1 %"
    assert units.format_ratio(0) == "0"
    assert units.format_count(332_858) == "332,858"
    assert units.format_packet_rate(20_000) == "20 kpps"


def test_instants_keep_every_nanosecond() -> None:
    assert units.format_instant(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
    assert units.format_instant(5, timezone(timedelta(hours=5, minutes=30))) == "1970-01-01T05:30:00.000000005+05:30"


@given(st.integers(1, 10**15))
def test_what_is_printed_reads_back_to_four_digits(ns: int) -> None:
    text = units.format_duration(ns)
    if " min" not in text and " h" not in text and " d " not in text:
        assert units.parse_duration_ns(text) == pytest.approx(ns, rel=6e-4)
