"""The one document: `model.Qualification` <-> JSON, byte-stable and exact.

The shape of the JSON is the shape of the dataclasses: fields in their order, enumerations by value, keys of dictionaries
sorted, lists of numbers on one line, durations as integer ns. NaN and infinity are never written; integers keep all their
64 bits. `load` checks everything and says where a document is damaged. Floor 2, pure: text in, text out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from linkqual.errors import InputError
from linkqual.model import SCHEMA, Json, Qualification
from linkqual.units import format_instant

FORMAT = "linkqual qualification"
_LEAD = ("format", "started", "ended")  # written for people; they follow from other fields
DAMAGED = "the document is damaged or edited; take the run folder's own run.json"

# What a document of an older schema needs to become one of the next: schema -> its change, in place.
MIGRATIONS: dict[int, Callable[[dict[str, Json]], None]] = {}


def dump(document: Qualification) -> str:
    """The document as indented JSON, ending in a line break. The same document always gives the same bytes."""
    tree = _lead(document) | _plain(document, "")
    return "".join(_written(tree, "\n")) + "\n"


def load(text: str) -> Qualification:
    """The document in `text`. InputError says what is damaged and where; a newer schema is refused, an older one migrated."""
    tree = _parsed(text)
    if not isinstance(tree, dict) or "schema" not in tree:
        raise InputError("this is no linkqual document", "give a run.json, or the folder of a run")
    _migrate(tree)
    version = tree.get("linkqual_version", "unknown")
    lead = {key: tree.pop(key, None) for key in _LEAD}
    try:
        document: Qualification = _typed(tree, Qualification, "")
    except _Misfit as misfit:
        raise InputError(misfit.message, f"{DAMAGED} (written by linkqual {version})", misfit.path) from None
    except RecursionError:
        raise InputError("nested too deeply", DAMAGED) from None
    _check_lead(lead, document)
    return document


def _lead(document: Qualification) -> dict[str, str]:
    return {
        "format": FORMAT,
        "started": format_instant(document.started_ns),
        "ended": format_instant(document.ended_ns),
    }


def _check_lead(given: dict[str, Json], document: Qualification) -> None:
    try:
        right = _lead(document)
    except (ValueError, OverflowError, OSError):
        raise InputError("an instant beyond the calendar", DAMAGED, "started_ns or ended_ns") from None
    for key, value in right.items():
        if given[key] is not None and given[key] != value:
            raise InputError(f"{given[key]!r} contradicts the rest, which gives {value!r}", DAMAGED, key)


# ---- reading


class _Misfit(Exception):  # noqa: N818
    def __init__(self, path: str, message: str) -> None:
        self.path = path.lstrip(".")
        self.message = message


def _parsed(text: str) -> Json:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"no JSON: {error.msg}", DAMAGED, f"line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InputError("nested too deeply", DAMAGED) from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise InputError(f"no JSON: {error}", DAMAGED) from None


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"key {twice!r} stands twice in one object", DAMAGED)
    return found


def _no_constant(word: str) -> Json:
    raise InputError(f"{word} is no JSON number", DAMAGED)


def _migrate(tree: dict[str, Json]) -> None:
    schema = tree["schema"]
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise InputError(f"{schema!r} is no schema version", DAMAGED, "schema")
    if schema > SCHEMA:
        by = tree.get("linkqual_version", "a newer linkqual")
        raise InputError(
            f"schema {schema} was written by linkqual {by}; this one reads up to {SCHEMA}", "update linkqual", "schema"
        )
    while schema < SCHEMA:
        MIGRATIONS[schema](tree)
        schema += 1
    tree["schema"] = schema


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _typed(value: Json, kind: Any, path: str) -> Any:  # noqa: PLR0911
    """`value` as an instance of the annotated type `kind`; _Misfit names the first place that does not fit."""
    if kind is Any:
        return _finite(value, path)
    origin = get_origin(kind)
    if origin in {Union, UnionType}:
        inner = [one for one in get_args(kind) if one is not NoneType]
        return None if value is None else _typed(value, inner[0], path)
    if origin is tuple:
        return _tuple(value, get_args(kind), path)
    if origin is dict:
        _expect(isinstance(value, dict), path, value, "an object")
        return {key: _typed(item, get_args(kind)[1], f"{path}.{key}") for key, item in value.items()}
    if is_dataclass(kind):
        return _dataclass(value, kind, path)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        allowed = [str(one) for one in kind]
        _expect(value in allowed, path, value, f"one of {', '.join(allowed)}")
        return kind(value)
    return _scalar(value, kind, path)


def _scalar(value: Json, kind: Any, path: str) -> Any:
    if kind is float:
        _expect(isinstance(value, (int, float)) and not isinstance(value, bool), path, value, "a number")
        _expect(math.isfinite(value), path, value, "a finite number")
        return float(value)
    if kind is int:
        _expect(isinstance(value, int) and not isinstance(value, bool), path, value, "a whole number")
        return value
    _expect(isinstance(value, kind), path, value, {str: "text", bool: "true or false"}[kind])
    return value


def _tuple(value: Json, kinds: tuple[Any, ...], path: str) -> tuple[Any, ...]:
    _expect(isinstance(value, list), path, value, "a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_typed(item, kinds[0], f"{path}[{number}]") for number, item in enumerate(value))
    _expect(len(value) == len(kinds), path, value, f"a list of {len(kinds)}")
    return tuple(
        _typed(item, kind, f"{path}[{number}]") for number, (item, kind) in enumerate(zip(value, kinds, strict=True))
    )


def _dataclass(value: Json, kind: Any, path: str) -> Any:
    _expect(isinstance(value, dict), path, value, "an object")
    known = {one.name: one for one in fields(kind)}
    for key in value:
        if key not in known:
            raise _Misfit(f"{path}.{key}", f"unknown field of {kind.__name__}")
    for name, one in known.items():
        if name not in value and one.default is MISSING and one.default_factory is MISSING:
            raise _Misfit(f"{path}.{name}", "is missing")
    hints = _hints(kind)
    return kind(**{name: _typed(item, hints[name], f"{path}.{name}") for name, item in value.items()})


def _finite(value: Json, path: str) -> Json:
    if isinstance(value, dict):
        return {key: _finite(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item, f"{path}[{number}]") for number, item in enumerate(value)]
    _expect(not isinstance(value, float) or math.isfinite(value), path, value, "a finite number")
    return value


def _expect(fits: bool, path: str, value: Json, wanted: str) -> None:
    if not fits:
        shown = repr(value)
        raise _Misfit(path, f"{shown[:60]}{'…' if len(shown) > 60 else ''} where {wanted} belongs")


# ---- writing


def _plain(value: Any, path: str) -> Any:
    """Dataclasses, tuples and enumerations as what JSON knows; ValueError for NaN and infinity, which are bugs."""
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name), f"{path}.{one.name}") for one in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(value[key], f"{path}.{key}") for key in sorted(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(item, f"{path}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if not isinstance(value, float):
        raise TypeError(f"{path}: {type(value).__name__} has no place in a document")
    if not math.isfinite(value):
        raise ValueError(f"{path}: {value} was measured as no number; a missing value is None")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value  # 5 and 5.0 give the same bytes


def _written(value: Json, line: str) -> list[str]:
    """Pieces of indented JSON; `line` is a line break with the indentation of the value."""
    if isinstance(value, dict) and value:
        inner = line + "  "
        pieces = ["{"]
        for number, (key, item) in enumerate(value.items()):
            pieces += ["," if number else "", inner, _quoted(key), ": ", *_written(item, inner)]
        return [*pieces, line, "}"]
    if isinstance(value, list) and any(isinstance(item, (dict, str)) for item in value):
        inner = line + "  "
        pieces = ["["]
        for number, item in enumerate(value):
            pieces += ["," if number else "", inner, *_written(item, inner)]
        return [*pieces, line, "]"]
    return [_quoted(value) if isinstance(value, str) else json.dumps(value, allow_nan=False)]


def _quoted(text: str) -> str:
    """As it is written, unless it holds half a surrogate pair (a name of undecodable bytes): then escaped."""
    return json.dumps(text, ensure_ascii=not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text))
