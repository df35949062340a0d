"""Reads the files a command line names: profiles, link files, line descriptions. The parsers themselves never open a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from linkqual.errors import InputError, UsageError

if TYPE_CHECKING:
    from linkqual.lab.line import Line
    from linkqual.model import Link, Profile


def file_text(path: Path, kind: str) -> str:
    """The text of a settings file. InputError when it cannot be read."""
    from linkqual.settings import decode

    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"cannot read the {kind}: {error.strerror}", hint="check the name", where=str(path)) from error


def _is_path(text: str) -> bool:
    return "/" in text or text.endswith((".yaml", ".yml")) or os.path.isfile(text)


def profile(name_or_file: str) -> Profile:
    """A shipped profile by its name, or one from a file."""
    from linkqual import profile as parser
    from linkqual import profiles

    if name_or_file in profiles.names():
        return parser.parse(profiles.text(name_or_file), f"{name_or_file}.yaml")
    if _is_path(name_or_file):
        return parser.parse(file_text(Path(name_or_file), "profile"), name_or_file)
    raise UsageError(
        f"there is no profile {name_or_file!r}", hint=f"shipped: {', '.join(profiles.names())}; or give a file's path"
    )


def link(file: Path | None, base: Link | None, **given: str | None) -> Link:
    """The facts of the line: a link file, else `base`, with what the command line gives on top."""
    from linkqual import link as parser
    from linkqual.model import Link

    found = parser.parse(file_text(file, "link file"), str(file)) if file is not None else base or Link()
    return parser.override(found, **given)


def line(name_or_file: str) -> Line:
    """A shipped virtual line by its name, or one from a file."""
    from linkqual.lab import line as parser

    if name_or_file in parser.names():
        return parser.load(name_or_file)
    if _is_path(name_or_file):
        return parser.parse(file_text(Path(name_or_file), "line"), name_or_file)
    raise UsageError(
        f"there is no line {name_or_file!r}", hint=f"shipped: {', '.join(parser.names())}; or give a file's path"
    )


def zone(name: str) -> str:
    """An IANA zone name that this Python knows. UsageError otherwise."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"there is no time zone {name!r}", hint="give an IANA name such as Europe/Berlin") from error
    return name
