"""Every broken profile in tests/profiles_bad says, at its head, exactly what is said of it: `# says: LINE: KEY: ...`."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkqual.errors import ExitCode, InputError
from linkqual.profile import parse
from linkqual.settings import MAX_BYTES, decode

BAD = sorted((Path(__file__).parent.parent / "profiles_bad").glob("*.yaml"))


def complaints(text: str, name: str = "p.yaml") -> list[str]:
    with pytest.raises(InputError) as caught:
        parse(text, name)
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE
    return str(caught.value).splitlines()


@pytest.mark.parametrize("file", BAD, ids=[file.stem for file in BAD])
def test_says_exactly_what_is_wrong(file: Path) -> None:
    text = decode(file.read_bytes(), file.name)
    expected = [line.removeprefix("# says: ") for line in text.splitlines() if line.startswith("# says: ")]
    assert expected
    assert complaints(text, file.name) == [f"{file.name}:{line}" for line in expected]


def test_there_are_many_of_them() -> None:
    assert len(BAD) >= 30


def test_complaints_stand_in_the_order_of_their_lines() -> None:
    text = (Path(__file__).parent.parent / "profiles_bad" / "misspelt.yaml").read_text("utf-8")
    lines = [int(line.split(":")[1]) for line in complaints(text)]
    assert lines == sorted(lines)
    assert len(lines) > 3


def test_a_huge_file_is_refused_before_it_is_read() -> None:
    text = "name: big\n" + "# filler\n" * 1_200_000
    assert len(text) > 10_000_000
    assert complaints(text) == [f"p.yaml:1: the file has {len(text):,} characters; allowed: at most {MAX_BYTES:,}"]


@pytest.mark.parametrize(
    ("data", "where", "said"),
    [
        (b"name: caf\xe9\n", "p.yaml:1", "this is no UTF-8 text (byte 0xe9)"),
        (b"name: x\n\xff\xfe\x00", "p.yaml:2", "this is no UTF-8 text (byte 0xff)"),
    ],
)
def test_bytes_that_are_no_text(data: bytes, where: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        decode(data, "p.yaml")
    assert str(caught.value) == f"{where}: {said}"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_trouble(encoding: str) -> None:
    text = "name: überprüft\nobjectives:\n- {metric: loss_ratio, direction: both, limit: 1e-5, source: c}\n"
    assert parse(decode(text.encode(encoding), "p.yaml"), "p.yaml").name == "überprüft"


@pytest.mark.parametrize(
    "text", ["\x00", "{", "- ", "&", "*a", "%YAML 9.9\n---\na: b", "? ", "a: b: c", "\ud800", "!!map"]
)
def test_no_text_gives_a_traceback(text: str) -> None:
    assert complaints(text)


def test_signed_packets_take_their_least_size_where_none_is_said() -> None:
    shipped = (Path(__file__).parents[2] / "profiles" / "training.yaml").read_text("utf-8")
    signed = parse(shipped.replace("  stamp:\n", "  stamp:\n    authenticated: true\n"), "p.yaml")
    assert signed.probes["stamp"]["packet_bytes"] == 152
    assert parse(shipped, "p.yaml").probes["stamp"]["packet_bytes"] == 64
