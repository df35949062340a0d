"""The reflector that --reflector names, and its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkqual.cli import reflecting
from linkqual.errors import UsageError

KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.0.2.7", "192.0.2.7", 862),
        ("192.0.2.7:5000", "192.0.2.7", 5000),
        ("[2001:db8::7]:5000", "2001:db8::7", 5000),
        ("2001:db8::7", "2001:db8::7", 862),
        ("router.example", "router.example", 862),
    ],
)
def test_where_it_listens(text: str, host: str, port: int) -> None:
    found = reflecting.read(text, None)
    assert found is not None
    assert (found.host, found.port, found.key) == (host, port, b"")


def test_its_key_comes_from_a_file_or_as_digits_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY.hex()}\n")
    for given in (str(file), KEY.hex()):
        found = reflecting.read("192.0.2.7", given)
        assert found is not None
        assert found.key == KEY
        assert KEY.hex() not in repr(found)
        assert "000102" not in repr(found)


@pytest.mark.parametrize("key", ["0", "no key", "é"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="no key in hex"):
        reflecting.read("192.0.2.7", key)


def test_an_empty_key_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    with pytest.raises(UsageError, match="is empty"):
        reflecting.read("192.0.2.7", str(tmp_path / "key"))
