"""Run folders: what is written comes back, and nothing that ends a run early takes more than its last batch."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkqual import store
from linkqual.errors import HostError, InputError, UsageError
from linkqual.records import ABSENT, RECORD, Fate, empty_records


def packets(count: int, first: int = 0) -> Any:
    rows = empty_records(count, first)
    rows["sent_ns"] = 1_700_000_000 * 10**9 + np.arange(count)
    rows["received_ns"][::2] = rows["sent_ns"][::2] + 8_000_000
    rows["fate"] = np.where(np.arange(count) % 2 == 0, Fate.RECEIVED, Fate.LOST_FORWARD)
    return rows


def test_packets_come_back_as_they_were_absent_ones_too(tmp_path: Path) -> None:
    run = store.Run(tmp_path / "ein Lauf 测试")
    writer = run.save_packets("stamp")
    first, second = packets(1000), packets(500, 1000)
    for rows in (first, second):
        writer.write(rows)
    writer.close()
    back = np.concatenate(list(store.packets(run.folder, "stamp")))
    assert (back == np.concatenate([first, second])).all()
    assert (back["received_ns"][1::2] == ABSENT).all()
    assert store.complete(run.folder, "stamp")


def test_a_run_of_a_version_without_a_column_reads_as_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = np.dtype([field for field in RECORD.descr if field[0] != "forward_tos"])
    monkeypatch.setattr(store, "RECORD", older)
    run = store.Run(tmp_path / "run")
    writer = run.save_packets("stamp")
    writer.write(packets(100))
    writer.close()
    monkeypatch.undo()
    assert (np.concatenate(list(store.packets(run.folder, "stamp"))) == packets(100)).all()


def test_a_torn_tail_costs_the_last_batch_only(tmp_path: Path) -> None:
    run = store.Run(tmp_path / "run")
    writer = run.save_packets("stamp")
    for first in range(0, 5000, 1000):
        writer.write(packets(1000, first))
    path = run.folder / "packets" / "stamp.arrow"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 700)
    back = np.concatenate(list(store.packets(run.folder, "stamp")))
    assert len(back) == 4000
    assert back["seq"].tolist() == list(range(4000))
    assert not store.complete(run.folder, "stamp")


def test_a_full_disk_ends_the_file_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.Run(tmp_path / "run")
    writer = run.save_packets("stamp")
    writer.write(packets(1000))
    monkeypatch.setattr(writer, "_append", lambda _rows: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no space left")))
    writer.write(packets(1000, 1000))
    writer.write(packets(1000, 2000))
    writer.close()
    assert run.lost_files == {"packets/stamp.arrow": "no space left after 1,000 packets"}
    assert sum(len(rows) for rows in store.packets(run.folder, "stamp")) == 1000


def test_a_disk_without_room_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(HostError, match="no room"):
        store.Run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UsageError, match="cannot write to"):
        store.Run(blocked / "run")


def test_a_folder_that_may_not_even_be_looked_at_is_told_in_one_line(tmp_path: Path) -> None:
    """The system refuses to say whether it is there: another's folder, a name too long."""
    unseen = tmp_path / ("x" * 300)
    with pytest.raises(UsageError, match="cannot write to"):
        store.Run(unseen)
    with pytest.raises(InputError, match="cannot read"):
        store.load(unseen)
    assert not store.has_packets(unseen, "stamp")
    assert store.default_folder(unseen, 0, "p", "l").parent == unseen


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    store.Run(tmp_path / "run").write_document("{}")
    with pytest.raises(UsageError, match="already holds a run"):
        store.Run(tmp_path / "run")


def test_the_document_replaces_the_old_one_whole(tmp_path: Path) -> None:
    run = store.Run(tmp_path / "run")
    run.write_document("old")
    run.write_document("new")
    assert (run.folder / store.DOCUMENT).read_text() == "new"
    assert not list(run.folder.glob(".*"))


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json: No such file"):
        store.load(tmp_path)
    (tmp_path / "run.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is no text"):
        store.load(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 1}')
    with pytest.raises(InputError, match=str(tmp_path)):
        store.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("throughput/forward/8", "throughput-forward-8"),
        ("上海 → Zürich", "上海-Zürich"),
        ("../..", "unnamed"),
        ("", "unnamed"),
    ],
)
def test_names_keep_their_letters_and_lose_what_a_path_means(name: str, kept: str) -> None:
    assert store.slug(name) == kept


def test_packets_that_cannot_be_opened_are_none(tmp_path: Path) -> None:
    (tmp_path / "packets" / "stamp.arrow").mkdir(parents=True)
    assert list(store.packets(tmp_path, "stamp")) == []


def test_a_run_killed_before_its_document_says_so(tmp_path: Path) -> None:
    store.Run(tmp_path / "run")
    with pytest.raises(InputError) as caught:
        store.load(tmp_path / "run")
    assert "killed" in caught.value.hint
