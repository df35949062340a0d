"""DSCP and ECN by number and by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.errors import InputError
from linkqual.wire import codepoints


@pytest.mark.parametrize(
    ("written", "value"),
    [("EF", 46), ("cs6", 48), ("AF41", 34), ("AF13", 14), ("0", 0), ("63", 63), ("LE", 1), ("BE", 0), ("va", 44)],
)
def test_dscp(written: str, value: int) -> None:
    assert codepoints.parse_dscp(written) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [("Not-ECT", 0), ("ECT(1)", 1), ("ect1", 1), ("ECT(0)", 2), ("ECT0", 2), ("ce", 3)],  # RFC 3168 section 5
)
def test_ecn(written: str, value: int) -> None:
    assert codepoints.parse_ecn(written) == value


@pytest.mark.parametrize("wrong", ["64", "-1", "AF44", "EF46", "", "ECT(0)"])
def test_what_is_no_dscp(wrong: str) -> None:
    with pytest.raises(InputError, match="is no DSCP"):
        codepoints.parse_dscp(wrong)


@pytest.mark.parametrize("wrong", ["2", "ECT(2)", "", "EF"])
def test_what_is_no_ecn(wrong: str) -> None:
    with pytest.raises(InputError, match="is no ECN"):
        codepoints.parse_ecn(wrong)


@given(st.integers(0, 255))
def test_every_octet_falls_into_its_parts_and_their_names_lead_back(octet: int) -> None:
    dscp, ecn = codepoints.parts(octet)
    assert codepoints.octet(dscp, ecn) == octet
    assert codepoints.parse_dscp(codepoints.dscp_name(dscp).removeprefix("DSCP ")) == dscp
    assert codepoints.parse_ecn(codepoints.ecn_name(ecn)) == ecn
