"""Timestamps and error estimates against vectors worked out by hand from RFC 5905, 8877 and 4656, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import WireError
from linkqual.records import ABSENT
from linkqual.wire import timestamp
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat

S = 10**9
NTP, PTP = TimestampFormat.NTP, TimestampFormat.PTP
INSTANTS = [  # UTC ns, NTP, PTP
    (0, 0x83AA7E8000000000, 0x0000000000000000),
    (1, 0x83AA7E8000000004, 0x0000000000000001),
    (S // 2, 0x83AA7E8080000000, 0x000000001DCD6500),
    (1700000000 * S, 0xE8FE6F8000000000, 0x6553F10000000000),
    (1700000000 * S + 123456789, 0xE8FE6F801F9ADD37, 0x6553F100075BCD15),
    (1767225600 * S, 0xED00378000000000, 0x6955B90000000000),
    (2085978495 * S + 999999999, 0xFFFFFFFFFFFFFFFC, 0x7C55817F3B9AC9FF),
    (2085978496 * S, 0x0000000000000000, 0x7C55818000000000),
    (4294967295 * S + 999999999, 0x83AA7E7FFFFFFFFC, 0xFFFFFFFF3B9AC9FF),
]
FRACTIONS = [(0x00000001, 0), (0x1F9ADD37, 123456789), (0x80000000, 500000000), (0xFFFFFFFF, 1000000000)]
DEFAULT_ERA = st.integers(0, 2**32 * S - 1)


@pytest.mark.parametrize(("ns", "ntp", "ptp"), INSTANTS)
def test_golden_instants(ns: int, ntp: int, ptp: int) -> None:
    assert timestamp.ntp_from_ns(ns) == ntp
    assert timestamp.ns_from_ntp(ntp) == ns
    assert timestamp.ptp_from_ns(ns) == ptp
    assert timestamp.ns_from_ptp(ptp) == ns


def test_golden_instants_as_columns() -> None:
    ns, ntp, ptp = (np.array(column, kind) for column, kind in zip(zip(*INSTANTS, strict=True), "qQQ", strict=True))
    assert (timestamp.ntp_column(ns) == ntp).all()
    assert (timestamp.ptp_column(ns) == ptp).all()
    assert (timestamp.ns_column_from_ntp(ntp.astype(">u8")) == ns).all()
    assert (timestamp.ns_column_from_ptp(ptp.astype(">u8")) == ns).all()


@pytest.mark.parametrize(("fraction", "ns"), FRACTIONS)
def test_fractions_are_rounded_and_carried(fraction: int, ns: int) -> None:
    value = timestamp.ntp_from_ns(1700000000 * S) | fraction
    assert timestamp.ns_from_ntp(value) == 1700000000 * S + ns
    assert timestamp.ns_column_from_ntp(np.array([value], np.uint64))[0] == 1700000000 * S + ns


@given(ns=st.integers(-(2**62), 2**62), drift=st.integers(-(2**30) * S, 2**30 * S))
def test_any_instant_survives_near_itself(ns: int, drift: int) -> None:
    near = ns + drift
    column = np.array([ns])
    for ntp in (timestamp.ntp_from_ns(ns), int(timestamp.ntp_column(column)[0])):
        assert timestamp.ns_from_ntp(ntp, near) == ns
        assert timestamp.ns_column_from_ntp(np.array([ntp], np.uint64), near)[0] == ns
    for ptp in (timestamp.ptp_from_ns(ns, 37), int(timestamp.ptp_column(column, 37)[0])):
        assert timestamp.ns_from_ptp(ptp, near, 37) == ns
        assert timestamp.ns_column_from_ptp(np.array([ptp], np.uint64), near, 37)[0] == ns


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_columns_say_what_single_values_say(values: list[int]) -> None:
    wire = np.array(values, np.uint64)
    assert timestamp.ns_column_from_ntp(wire).tolist() == [timestamp.ns_from_ntp(value) for value in values]
    for value, ns in zip(values, timestamp.ns_column_from_ptp(wire).tolist(), strict=True):
        if ns == ABSENT:
            with pytest.raises(WireError):
                timestamp.ns_from_ptp(value)
        else:
            assert ns == timestamp.ns_from_ptp(value)


@given(ns=DEFAULT_ERA, form=st.sampled_from(TimestampFormat))
def test_the_z_bit_chooses_the_format(ns: int, form: TimestampFormat) -> None:
    value = timestamp.encode(ns, form)
    assert timestamp.decode(value, form) == ns
    estimates = np.array([ErrorEstimate(form=form).to_wire(), ErrorEstimate().to_wire()], ">u2")
    mixed = np.array([value, timestamp.encode(ns, TimestampFormat.NTP)], ">u8")
    assert timestamp.ns_column(mixed, estimates).tolist() == [ns, ns]


DECODED = [  # the four fields, on the wire, in seconds
    (ErrorEstimate(False, NTP, 0, 1), 0x0001, 2.328306437e-10),
    (ErrorEstimate(True, NTP, 12, 100), 0x8C64, 9.536743164e-05),
    (ErrorEstimate(True, NTP, 22, 1), 0x9601, 9.765625000e-04),
    (ErrorEstimate(True, PTP, 16, 66), 0xD042, 1.007080078e-03),
    (ErrorEstimate(False, NTP, 32, 1), 0x2001, 1.0),
    (ErrorEstimate(True, NTP, 63, 255), 0xBFFF, 5.476083302e11),
]
ENCODED = [
    (1, 0x8005),
    (1_000, 0x8587),
    (10_000, 0x88A8),
    (100_000, 0x8BD2),
    (1_000_000, 0x8F84),
    (10_000_000, 0x92A4),
    (S, 0x9980),
]


@pytest.mark.parametrize(("estimate", "wire", "seconds"), DECODED)
def test_golden_error_estimates(estimate: ErrorEstimate, wire: int, seconds: float) -> None:
    assert ErrorEstimate.from_wire(wire) == estimate
    assert estimate.to_wire() == wire
    assert estimate.error_ns == pytest.approx(seconds * S, rel=1e-6, abs=1)


@pytest.mark.parametrize(("error_ns", "wire"), ENCODED)
def test_the_finest_scale_is_taken(error_ns: int, wire: int) -> None:
    assert ErrorEstimate.of(error_ns, synchronised=True).to_wire() == wire


@given(st.integers(0, 10**20))
def test_a_bound_stays_a_bound_and_is_close(error_ns: int) -> None:
    told = ErrorEstimate.of(error_ns)
    assert error_ns <= told.error_ns <= max(2, error_ns + error_ns // 64 + 1)


def test_an_unknown_error_is_the_largest_and_zero_is_not_corrupt() -> None:
    assert ErrorEstimate.of(None).to_wire() == 0x3FFF
    assert ErrorEstimate.of(10**30).to_wire() == 0x3FFF
    assert ErrorEstimate.of(0).multiplier == 1


@settings(max_examples=200)
@given(st.integers(0, 0xFFFF))
def test_any_sixteen_bits(wire: int) -> None:
    if wire & 0xFF:
        assert ErrorEstimate.from_wire(wire).to_wire() == wire
    else:
        with pytest.raises(WireError):
            ErrorEstimate.from_wire(wire)
