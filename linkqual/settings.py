"""A settings file (YAML 1.2) as a tree whose every node knows its line, and a reader that collects complaints instead of stopping.

Scalars stay text: a field knows what it wants, so "off", "1e-5" and "20 kpps" mean what they say and nothing is guessed.
Anchors, aliases, tags and several documents in one file are refused: no profile or link needs them, and without them no
file can be larger than it looks. Floor 2, pure: takes text and a name, never opens a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NoReturn, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from linkqual.errors import InputError

MAX_BYTES = 256 * 1024  # a profile is a few kilobytes; what is larger is another kind of file
MAX_DEPTH = 20
_T = TypeVar("_T")
_D = TypeVar("_D")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as written; `plain`: without quotes, where an empty text means "no value"."""

    text: str
    line: int
    plain: bool = True

    @property
    def empty(self) -> bool:
        """`key:` with nothing behind it, or an explicit null."""
        return self.plain and self.text in {"", "~", "null", "Null", "NULL"}


@dataclass(frozen=True, slots=True)
class Listing:
    """A YAML sequence."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """A YAML mapping; `lines` holds the line of each key."""

    items: dict[str, Node]
    lines: dict[str, int]
    line: int


Node = Scalar | Listing | Mapping


@dataclass(slots=True)
class Complaints:
    """Everything wrong with one file, in the order of its lines when raised."""

    name: str
    hint: str = ""
    _found: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, line: int, key: str, message: str, allowed: str = "") -> None:
        """One complaint; `allowed` ends the sentence when given."""
        self._found.append((line, key, f"{message}; allowed: {allowed}" if allowed else message))

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_any(self) -> None:
        """InputError with one line a complaint, sorted by line; silent when there is none."""
        if not self._found:
            return
        places = [
            (f"{self.name}:{line}: {key}".removesuffix(": "), message) for line, key, message in sorted(self._found)
        ]
        (where, first), rest = places[0], places[1:]
        raise InputError("\n".join([first, *(f"{place}: {message}" for place, message in rest)]), self.hint, where)

    def fatal(self, line: int, key: str, message: str, allowed: str = "") -> NoReturn:
        """Complain and stop: nothing after this can be read."""
        self.add(line, key, message, allowed)
        self.raise_any()
        raise AssertionError


def decode(data: bytes, name: str) -> str:
    """The text of a settings file read as bytes; InputError when it is no UTF-8 (or marked UTF-16) text."""
    encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"this is no UTF-8 text (byte 0x{data[error.start]:02x})", "save it as UTF-8", f"{name}:{line}"
        ) from None


def read_tree(text: str, complaints: Complaints) -> Mapping:
    """The mapping a settings file holds. Duplicate keys are collected; what makes the rest unreadable raises InputError."""
    if len(text) > MAX_BYTES:
        complaints.fatal(1, "", f"the file has {len(text):,} characters", f"at most {MAX_BYTES:,}")
    try:
        events = YAML(typ="safe", pure=True).parse(text)
        root = _document(iter(events), complaints)
    except MarkedYAMLError as error:
        _syntax(text, error, complaints)
    except YAMLError as error:  # ReaderError: a character YAML forbids
        position = getattr(error, "position", 0)
        code = getattr(error, "character", 0)
        code = ord(code) if isinstance(code, str) else code
        complaints.fatal(text.count("\n", 0, position) + 1, "", f"character U+{code:04X} is not allowed in YAML")
    except RecursionError:
        complaints.fatal(1, "", "nested too deeply", f"{MAX_DEPTH} levels")
    if not isinstance(root, Mapping):
        shape = "a list" if isinstance(root, Listing) else "a single value"
        complaints.fatal(root.line, "", f"the file holds {shape}", "keys with values, such as 'name: ...'")
    return root


def _syntax(text: str, error: MarkedYAMLError, complaints: Complaints) -> NoReturn:
    mark = error.problem_mark or error.context_mark
    number = mark.line if mark else 0
    line = (text.splitlines() or [""])[min(number, len(text.splitlines()) - 1)]
    if re.match(r" *\t", line):
        complaints.fatal(number + 1, "", "a tab in the indentation", "spaces")
    begun = f" (begun in line {error.context_mark.line + 1})" if error.context_mark else ""
    context = f" {error.context}{begun}" if error.context else ""
    complaints.fatal(number + 1, "", f"no YAML: {error.problem}{context}")


def _document(events: Iterator[Event], complaints: Complaints) -> Node:
    root: Node | None = None
    for event in events:
        if isinstance(event, DocumentStartEvent) and root is not None:
            complaints.fatal(_line(event), "", "a second document begins here ('---')", "one document a file")
        if isinstance(event, (ScalarEvent, SequenceStartEvent, MappingStartEvent, AliasEvent)):
            root = _node(event, events, complaints, "", 0)
    if root is None or (isinstance(root, Scalar) and root.empty):
        complaints.fatal(1, "", "the file is empty", "keys with values, such as 'name: ...'")
    return root


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


def _node(event: Event, events: Iterator[Event], complaints: Complaints, path: str, depth: int) -> Node:
    line = _line(event)
    if depth > MAX_DEPTH:
        complaints.fatal(line, path.partition("#")[0], "nested too deeply", f"{MAX_DEPTH} levels")
    if getattr(event, "anchor", None) is not None:
        sign = "*" if isinstance(event, AliasEvent) else "&"
        complaints.fatal(line, path, f"anchors and aliases ({sign}{event.anchor}) are not read", "the value itself")
    if getattr(event, "tag", None) is not None:
        complaints.fatal(line, path, f"tags ({event.tag}) are not read", "the value itself")
    if isinstance(event, SequenceStartEvent):
        items: list[Node] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            items.append(_node(event, events, complaints, f"{path}#{len(items) + 1}", depth + 1))
        return Listing(tuple(items), line)
    if isinstance(event, MappingStartEvent):
        return _mapping(line, events, complaints, path, depth)
    assert isinstance(event, ScalarEvent)
    return Scalar(event.value, line, plain=event.style is None)


def _mapping(line: int, events: Iterator[Event], complaints: Complaints, path: str, depth: int) -> Mapping:
    values: dict[str, Node] = {}
    lines: dict[str, int] = {}
    while not isinstance(event := next(events), MappingEndEvent):
        at = _line(event)
        key = _node(event, events, complaints, path, depth + 1)
        if not isinstance(key, Scalar):
            complaints.fatal(at, path, "a key that is a list or a mapping", "plain words as keys")
        inner = f"{path}.{key.text}" if path else key.text
        value = _node(next(events), events, complaints, inner, depth + 1)
        if key.text in values:
            complaints.add(at, inner, f"given twice, first in line {lines[key.text]}", "once")
            continue
        values[key.text], lines[key.text] = value, at
    return Mapping(values, lines, line)


@dataclass(slots=True)
class Section:
    """One mapping read key by key. What a reader refuses becomes a complaint and the default takes its place, so that one
    pass finds everything. `close` complains of the keys nobody asked for.
    """

    node: Mapping
    path: str
    complaints: Complaints
    _asked: list[str] = field(default_factory=list)

    def line(self, key: str) -> int:
        """Where `key` stands; the mapping's own line when it is absent."""
        return self.node.lines.get(key, self.node.line)

    def label(self, key: str) -> str:
        """The full key as complaints name it: "objectives#2.limit"."""
        return f"{self.path}.{key}" if self.path else key

    def complain(self, key: str, message: str, allowed: str = "") -> None:
        """A complaint at the line of `key`."""
        self.complaints.add(self.line(key), self.label(key), message, allowed)

    def has(self, key: str) -> bool:
        """Whether the key is written (and so is known to the reader)."""
        self._ask(key)
        return key in self.node.items

    def raw(self, key: str) -> Node | None:
        """The node behind `key`, None when absent."""
        self._ask(key)
        return self.node.items.get(key)

    def get(
        self, key: str, read: Callable[[str], _T], default: _D, required: bool = False, allowed: str = ""
    ) -> _T | _D:
        """The value of a scalar key through `read`, which raises InputError for what it refuses; `allowed` if it is missing."""
        node = self.raw(key)
        if node is None:
            if required:
                self.complain(key, "is missing", allowed)
            return default
        return self.value(key, node, read, default)

    def value(self, key: str, node: Node, read: Callable[[str], _T], default: _D) -> _T | _D:
        """As `get`, for a node at hand (an item of a list)."""
        if not isinstance(node, Scalar):
            shape = "a list" if isinstance(node, Listing) else "a mapping"
            self.complaints.add(node.line, self.label(key), f"is {shape}", "a single value")
            return default
        if node.empty:
            self.complaints.add(node.line, self.label(key), "has no value")
            return default
        try:
            return read(node.text)
        except InputError as error:
            allowed = error.hint.replace("write it like ", "values like ")
            self.complaints.add(node.line, self.label(key), error.message, allowed)
            return default

    def get_list(self, key: str, read: Callable[[str], _T], default: tuple[_T, ...]) -> tuple[_T, ...]:
        """A list of scalars, or one scalar standing for a list of one."""
        node = self.raw(key)
        if node is None:
            return default
        if not isinstance(node, Listing):
            one = self.value(key, node, read, None)
            return default if one is None else (one,)
        if not node.items:
            self.complain(key, "is an empty list", "at least one value")
        found = [self.value(key, item, read, None) for item in node.items]
        return tuple(value for value in found if value is not None) or default

    def section(self, key: str) -> Section | None:
        """The mapping behind `key`; an empty value counts as an empty mapping; None when absent or of another shape."""
        node = self.raw(key)
        if node is None:
            return None
        return self.as_section(node, self.label(key))

    def as_section(self, node: Node, path: str) -> Section | None:
        """A node as a section, with a complaint when it is none."""
        if isinstance(node, Scalar) and node.empty:
            node = Mapping({}, {}, node.line)
        if not isinstance(node, Mapping):
            self.complaints.add(
                node.line, path, "is a list" if isinstance(node, Listing) else "is a single value", "keys with values"
            )
            return None
        return Section(node, path, self.complaints)

    def close(self) -> None:
        """Complain of every key that was never asked for."""
        for key in self.node.items:
            if key not in self._asked:
                near = get_close_matches(key, self._asked, 1)
                mean = f", did you mean '{near[0]}'?" if near else ""
                self.complain(key, f"unknown key{mean}", ", ".join(self._asked))

    def _ask(self, key: str) -> None:
        if key not in self._asked:
            self._asked.append(key)


# ---- readers of single values


def text(value: str) -> str:
    """Any non-empty text, inner line breaks joined."""
    joined = " ".join(value.split())
    if not joined:
        raise InputError("is empty", "some text")
    return joined


def boolean(value: str) -> bool:
    """True or false; YAML 1.2 knows no yes, no, on or off."""
    if value.lower() not in {"true", "false"}:
        raise InputError(f"{value!r} is no truth value", "true or false")
    return value.lower() == "true"


def whole(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers between two bounds; "2,000,000" and "2_000_000" are fine."""

    def read(value: str) -> int:
        plain = value.replace("_", "").replace(",", "")
        if not re.fullmatch(r"[-+]?\d{1,18}", plain):
            raise InputError(f"{value!r} is no whole number", f"{low:,} to {high:,}")
        if not low <= int(plain) <= high:
            raise InputError(f"{value} is out of range", f"{low:,} to {high:,}")
        return int(plain)

    return read


def real(low: float, high: float, what: str, allowed: str) -> Callable[[str], float]:
    """A reader of numbers between two bounds; any other is no `what`, and `allowed` says what is one."""

    def read(value: str) -> float:
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not low <= found <= high:
            raise InputError(f"{value!r} is no {what}", allowed)
        return found

    return read


def choice(*allowed: str) -> Callable[[str], str]:
    """A reader of one of the given words."""

    def read(value: str) -> str:
        if value not in allowed:
            raise InputError(f"{value!r} is not known", ", ".join(allowed))
        return value

    return read
