"""A run is a folder: `run.json` (the document), `packets/*.arrow`, `raw/*`, `report.html`. Floor 3.

Packets are an Arrow IPC stream, flushed batch by batch: a killed process loses at most its last batch, and a torn tail
is noticed when it is read. A full disk never ends a measurement: what no longer fits is counted and said, and room
for the document itself is set aside when the run begins.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from linkqual.errors import HostError, InputError, UsageError
from linkqual.records import ABSENT, RECORD, empty_records
from linkqual.units import NS_PER_S

if TYPE_CHECKING:
    import numpy.typing as npt

    from linkqual.model import Qualification
    from linkqual.records import Records

DOCUMENT = "run.json"
REPORT = "report.html"
_RESERVE_BYTES = 4 << 20  # room kept for the document and the report until they are written
# what pyarrow and numpy make of a damaged file, besides errors of pyarrow's own
_DAMAGED = (EOFError, OSError, ValueError, TypeError, LookupError, OverflowError, MemoryError)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Run:
    """A run folder being written."""

    def __init__(self, folder: Path) -> None:
        """Make the folder. UsageError when it cannot be written or holds another run already."""
        self.folder = folder
        self.lost_files: dict[str, str] = {}  # what could not be kept -> why
        if os.path.exists(folder / DOCUMENT):
            raise UsageError(f"{folder} already holds a run", hint="name another folder with -o, or remove that one")
        try:
            (folder / "raw").mkdir(parents=True, exist_ok=True)
            (folder / "packets").mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise UsageError(
                f"cannot write to {folder}: {error.strerror}", hint="name a folder of your own with -o FOLDER"
            ) from error
        try:
            self._reserve: BinaryIO | None = self._set_aside()
        except OSError as error:
            self._reserve = None
            if error.errno in _NO_ROOM:
                self._give_up()
                raise HostError(
                    f"no room on the disk of {folder}",
                    hint="free some hundred MB, or name another folder with -o FOLDER",
                ) from error

    def _set_aside(self) -> BinaryIO:
        """Room for what is written last, held by a file without a name: gone with this process, however it ends."""
        file: BinaryIO = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - held until the room is needed
        try:
            os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
        except OSError:
            file.close()
            raise
        return file

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """Give the room back for the time of one writing, and take it again for the next."""
        if self._reserve is not None:
            self._reserve.close()
        yield
        with contextlib.suppress(OSError):
            self._reserve = self._set_aside()

    def _give_up(self) -> None:
        """Take away what is still empty."""
        for folder in (self.folder / "raw", self.folder / "packets", self.folder):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def save_raw(self, name: str, data: str | bytes) -> None:
        """Keep what a program said, as it said it. A full disk is remembered, not raised."""
        content = data.encode() if isinstance(data, str) else data
        try:
            (self.folder / "raw" / slug(name)).write_bytes(content)
        except OSError as error:
            self.lost_files[f"raw/{slug(name)}"] = error.strerror or str(error)

    def save_packets(self, step: str) -> PacketFile:
        """A writer for the packet records of one step."""
        return PacketFile(self, self.folder / "packets" / f"{slug(step)}.arrow")

    def write_document(self, text: str) -> Path:
        """Put run.json in place in one movement: a reader sees the old one or the new one, never half."""
        return self._replace(DOCUMENT, text)

    def write_report(self, text: str, name: str = REPORT) -> Path:
        """Put a report beside the document."""
        return self._replace(name, text)

    def _replace(self, name: str, text: str) -> Path:
        target = self.folder / name
        part = target.with_name(f".{name}.part")
        try:
            with self._room():
                with part.open("w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(target)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise HostError(
                f"cannot write {target}: {error.strerror}",
                hint="free room on that disk; the packets already kept are unharmed",
            ) from error
        return target


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.from_numpy_dtype(RECORD[name])) for name in RECORD.names or ()])


class PacketFile:
    """An Arrow stream of packet records. After a write failed it takes no more and says why in `Run.lost_files`."""

    def __init__(self, run: Run, path: Path) -> None:
        self._run = run
        self._path = path
        self._writer: Any = None
        self._file: Any = None
        self._rows = 0

    def write(self, records: Records) -> None:
        """Append a batch and hand it to the kernel."""
        if len(records) == 0 or self._name in self._run.lost_files:
            return
        try:
            self._append(records)
            self._rows += len(records)
        except OSError as error:
            reason = error.strerror or str(error)
            self._run.lost_files[self._name] = f"{reason} after {self._rows:,} packets"

    def close(self) -> None:
        """Write the end mark."""
        try:
            if self._writer is not None and self._name not in self._run.lost_files:
                self._writer.close()
        except OSError as error:
            self._run.lost_files[self._name] = error.strerror or str(error)
        finally:
            if self._file is not None:
                self._file.close()

    @property
    def _name(self) -> str:
        return f"packets/{self._path.name}"

    def _append(self, records: Records) -> None:
        import pyarrow as pa
        from pyarrow import ipc

        if self._writer is None:
            self._file = self._path.open("wb", buffering=0)
            options = ipc.IpcWriteOptions(compression="lz4")
            self._writer = ipc.new_stream(self._file, _schema(), options=options)
        columns = [_column(records[name]) for name in RECORD.names or ()]
        self._writer.write_batch(pa.record_batch(columns, schema=_schema()))


def _column(values: npt.NDArray[Any]) -> Any:
    """An Arrow array of one field, ABSENT as null. Not `pa.array`, which loads pandas: half a second while packets come in."""
    import pyarrow as pa

    present = None
    if values.dtype == "i8":
        present = pa.py_buffer(np.packbits(values != ABSENT, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [present, data])


def load(folder: Path) -> Qualification:
    """The document of a run folder (or of a run.json given by its own path). InputError when there is none or it is damaged."""
    from linkqual import document, document_paths

    path = folder / DOCUMENT if os.path.isdir(folder) else folder
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        hint = "give a run's folder, as `linkqual test` printed it"
        if isinstance(error, FileNotFoundError) and os.path.isdir(folder / "packets"):
            hint = "this run was killed before its first measurement was done: test again"
        raise InputError(f"cannot read {path}: {reason}", hint=hint) from error
    try:
        found = document.load(text)
        document_paths.check(found)
        return found
    except InputError as error:
        raise InputError(error.message, hint=error.hint, where=str(path)) from error


def packets(folder: Path, step: str) -> Iterator[Records]:
    """Batches of packet records of a step; ends quietly where a torn tail begins (see `complete`). Nothing without a file."""
    import pyarrow as pa
    from pyarrow import ipc

    path = folder / "packets" / f"{slug(step)}.arrow"
    if not os.path.exists(path):
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            reader = ipc.open_stream(file)
            for batch in reader:
                rows = empty_records(batch.num_rows)  # what an older run had no column for keeps its "not known"
                for name in set(RECORD.names or ()) & set(batch.schema.names):
                    column = batch.column(name)
                    if column.null_count:
                        column = column.fill_null(ABSENT)
                    rows[name] = column.to_numpy(zero_copy_only=False)
                yield rows
        except (pa.ArrowException, *_DAMAGED):
            return


def has_packets(folder: Path, step: str) -> bool:
    """Whether packet records of this step were kept."""
    return os.path.exists(folder / "packets" / f"{slug(step)}.arrow")


def complete(folder: Path, step: str) -> bool:
    """Whether the packet file ends with its end mark (eight bytes), i.e. its writer was not killed."""
    path = folder / "packets" / f"{slug(step)}.arrow"
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8))
        return file.read() == b"\xff\xff\xff\xff\x00\x00\x00\x00"


def slug(name: str) -> str:
    """A file name that keeps letters of every script: separators, blanks and control characters become "-"."""
    return re.sub(r"[^\w.+@=-]+", "-", name).strip("-.")[:100] or "unnamed"


def default_folder(base: Path, started_ns: int, profile: str, line: str) -> Path:
    """runs/20261130T071756Z-training-clean, with a number behind it when two runs begin in one second."""
    moment = datetime.fromtimestamp(started_ns // NS_PER_S, UTC)
    name = f"{moment:%Y%m%dT%H%M%SZ}-{slug(profile)}-{slug(line)}"
    folder, again = base / name, 1
    while os.path.exists(folder):
        again += 1
        folder = base / f"{name}-{again}"
    return folder
