"""The document: byte-stable, exact, and damage is named with its place."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linkqual import document
from linkqual.document import dump, load
from linkqual.errors import ExitCode, InputError
from linkqual.model import SCHEMA, Histogram, Qualification

_spec = importlib.util.spec_from_file_location("document_sample", Path(__file__).with_name("sample.py"))
assert _spec is not None
assert _spec.loader is not None
sample = importlib.util.module_from_spec(_spec)
sys.modules["document_sample"] = sample
_spec.loader.exec_module(sample)
DOCUMENT: Qualification = sample.DOCUMENT
GOLDEN: str = sample.GOLDEN.read_text("utf-8")


def damaged(change: Callable[[dict[str, Any]], object]) -> InputError:
    tree = json.loads(GOLDEN)
    change(tree)
    return refused(json.dumps(tree))


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        load(text)
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.hint
    return caught.value


def test_the_golden_document_is_written_to_the_byte() -> None:
    assert dump(DOCUMENT) == GOLDEN  # when a field was added on purpose: run tests/document/sample.py


def test_the_golden_document_is_read() -> None:
    assert load(GOLDEN) == DOCUMENT


def test_what_was_written_first_is_kept_for_good() -> None:
    """schema-1-first.json is never written anew: whatever is added since, all that stands in it is read and written again."""
    first = sample.GOLDEN.with_name("schema-1-first.json").read_text("utf-8")
    assert holds(json.loads(dump(load(first))), json.loads(first))


def holds(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and holds(whole[key], item) for key, item in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(holds, whole, part))
    return bool(whole == part)


def test_integers_of_64_bits_are_exact() -> None:
    assert f'"sent": {2**63 - 1}' in GOLDEN
    stamp = load(GOLDEN).measurements[0].stamp
    assert stamp is not None
    assert stamp.summary.sent == 2**63 - 1


def test_people_can_read_it() -> None:
    assert '"started": "2026-11-30T07:00:00.123456789Z"' in GOLDEN
    assert '"name": "上海 – Zhongwei 2"' in GOLDEN
    assert '"indices": [0, 4711]' in GOLDEN
    assert GOLDEN.endswith("}\n")


def test_the_order_of_keys_makes_no_difference() -> None:
    measurement = DOCUMENT.measurements[0]
    near = measurement.conditions.near
    turned = replace(near, versions=dict(reversed(near.versions.items())))
    other = replace(
        DOCUMENT,
        measurements=(
            replace(measurement, conditions=replace(measurement.conditions, near=turned)),
            *DOCUMENT.measurements[1:],
        ),
    )
    assert dump(other) == GOLDEN


def test_equal_numbers_give_equal_bytes() -> None:
    whole, real = (replace(DOCUMENT, truth={"x": value}) for value in (5, 5.0))
    assert dump(whole) == dump(real)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_never_written(value: float) -> None:
    with pytest.raises(ValueError, match=r"\.truth\.rate\.x\[1\]"):
        dump(replace(DOCUMENT, truth={"rate": {"x": [1, value]}}))


def test_undecodable_names_survive() -> None:
    odd = replace(DOCUMENT, run="caf\udce9", truth={"caf\udce9": "\ud800"})
    assert load(dump(odd).encode("utf-8").decode("utf-8")) == odd


def test_fields_added_since_have_their_defaults() -> None:
    tree = json.loads(GOLDEN)
    del tree["zone"], tree["truth"], tree["measurements"][0]["stamp"]["summary"]["late"]
    read = load(json.dumps(tree))
    assert read.zone == "UTC"
    assert read.truth == {}


def test_lead_fields_may_be_missing() -> None:
    tree = json.loads(GOLDEN)
    for key in ("format", "started", "ended"):
        del tree[key]
    assert load(json.dumps(tree)) == DOCUMENT


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        (lambda t: t.update(run=7), "run", "7 where text belongs"),
        (lambda t: t.update(started_ns="soon"), "started_ns", "'soon' where a whole number belongs"),
        (lambda t: t.update(started_ns=1.5), "started_ns", "1.5 where a whole number belongs"),
        (lambda t: t.update(started_ns=True), "started_ns", "True where a whole number belongs"),
        (lambda t: t.update(simulated=0), "simulated", "0 where true or false belongs"),
        (lambda t: t.update(measurements={}), "measurements", "{} where a list belongs"),
        (lambda t: t.update(extra=1), "extra", "unknown field of Qualification"),
        (lambda t: t.pop("plan"), "plan", "is missing"),
        (lambda t: t["verdict"].update(outcome="maybe"), "verdict.outcome", "'maybe' where one of pass, fail,"),
        (lambda t: t["verdict"]["findings"][1].update(objective=None), "verdict.findings[1].objective", "None where an object"),
        (lambda t: t["measurements"][3]["path"]["pairs"].append([1]), "measurements[3].path.pairs[2]", "where a list of 2 belongs"),
        (lambda t: t["measurements"][0]["stamp"]["summary"]["round_trip_delay"].update(n=None),
            "measurements[0].stamp.summary.round_trip_delay.n", "None where a whole number belongs"),
        (lambda t: t["plan"]["link"].update(cir_bps="10G"), "plan.link.cir_bps", "'10G' where a whole number belongs"),
        (lambda t: t.update(started="2026-01-01T00:00:00.000000000Z"), "started", "contradicts the rest"),
        (lambda t: t.update(format=["something else"]), "format", "contradicts the rest"),
        (lambda t: t.update(ended_ns=10**30), "started_ns or ended_ns", "an instant beyond the calendar"),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_place(change: Callable[[dict[str, Any]], object], where: str, said: str) -> None:
    error = damaged(change)
    assert error.where == where
    assert said in error.message


def test_a_newer_schema_is_refused_plainly() -> None:
    error = damaged(lambda tree: tree.update(schema=SCHEMA + 1, linkqual_version="9.0.0", unheard_of={}))
    assert error.message == f"schema: schema {SCHEMA + 1} was written by linkqual 9.0.0; this one reads up to {SCHEMA}"
    assert error.hint == "update linkqual"


@pytest.mark.parametrize("schema", [0, -1, "1", None, 1.0, True])
def test_a_schema_that_is_none(schema: object) -> None:
    assert damaged(lambda tree: tree.update(schema=schema)).where == "schema"


def test_an_older_schema_is_migrated_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "SCHEMA", 3)
    monkeypatch.setattr(
        document,
        "MIGRATIONS",
        {1: lambda tree: tree.update(zone="Europe/Berlin"), 2: lambda tree: tree.update(run=tree["zone"])},
    )
    read = load(GOLDEN)
    assert (read.schema, read.zone, read.run) == (3, "Europe/Berlin", "Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1: no JSON"),
        ("{", "line 1, column 2: no JSON"),
        ("[]", "this is no linkqual document"),
        ("{}", "this is no linkqual document"),
        ("null", "this is no linkqual document"),
        ('{"schema": 1, "schema": 1}', "key 'schema' stands twice"),
        ('{"schema": NaN}', "NaN is no JSON number"),
        ('{"schema": 1, "x": -Infinity}', "-Infinity is no JSON number"),
        ("[" * 100_000, "nested too deeply"),
        (GOLDEN.replace('"truth": {', '"truth": {"x": ' + "[" * 900 + "]" * 900 + ","), "nested too deeply"),
        ('{"schema": ' + "9" * 5000 + "}", "no JSON"),
        ('{"schema": 1e999}', "is no schema version"),
    ],
)
def test_what_is_no_document(text: str, said: str) -> None:
    assert said in str(refused(text))


def test_a_float_too_large_is_no_number() -> None:
    text = GOLDEN.replace('"rate_pps": 20000,\n        "packet_bytes"', '"rate_pps": 1e999,\n        "packet_bytes"')
    assert text != GOLDEN
    assert "a finite number" in refused(text).message


@pytest.mark.parametrize("cut", [10, 200, 3000, -2, -30])
def test_a_torn_document(cut: int) -> None:
    assert "no JSON" in str(refused(GOLDEN[:cut]))


# ---- laws

_names = st.text(st.characters(exclude_categories=()), max_size=8)
_whole = st.integers(-(2**63), 2**63 - 1)
_real = st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | _whole | _real | _names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=2),
    max_leaves=4,
)


@cache
def _any_of(kind: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911
    if kind is Any:
        return _json
    origin, args = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return st.none() | _any_of(next(one for one in args if one is not NoneType))
    if origin is tuple:
        if args[-1] is Ellipsis:
            return st.lists(st.deferred(lambda: _any_of(args[0])), max_size=1).map(tuple)
        return st.tuples(*map(_any_of, args))
    if origin is dict:
        return st.dictionaries(_names, _any_of(args[1]), max_size=1)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{one.name: _any_of(hints[one.name]) for one in fields(kind)})  # type: ignore[arg-type]
    if issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    return {int: _whole, float: _real, str: _names, bool: st.booleans()}[kind]


_instant = st.integers(0, 2**62)  # printable as a date


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(_any_of(Qualification), _instant, _instant)
def test_what_is_written_is_read_again(made: Qualification, started: int, ended: int) -> None:
    made = replace(made, schema=SCHEMA, started_ns=started, ended_ns=ended)
    text = dump(made)
    read = load(text)
    assert read == made
    assert dump(read) == text
    assert dump(copy.deepcopy(made)) == text


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_value_in_any_place_is_read_or_refused_with_its_place(data: st.DataObject) -> None:
    tree = json.loads(GOLDEN)
    place: Any = tree
    while isinstance(place, (dict, list)) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(_json)
    try:
        read = load(json.dumps(tree))
    except InputError as error:
        assert error.hint  # noqa: PT017
    else:
        assert load(dump(read)) == read


def test_a_large_document_is_read_back() -> None:
    histogram = Histogram(10**6, 0, 10**9, 10**12, tuple(range(20_000)), tuple(range(20_000)))
    assert DOCUMENT.measurements[0].stamp is not None
    stamp = DOCUMENT.measurements[0].stamp
    large = replace(stamp, lateness=histogram)
    made = replace(DOCUMENT, measurements=(replace(DOCUMENT.measurements[0], stamp=large),))
    assert load(dump(made)) == made
