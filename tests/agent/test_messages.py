"""Any bytes are a message or a WireError; what goes out comes back; what may be asked is bounded."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import WireError
from linkqual.wire.control import (
    MAX_DEPTH,
    MAX_FRAME,
    PROTOCOLS,
    Answer,
    Message,
    Refusal,
    Request,
    bytes_text,
    decode,
    encode,
    frame_length,
    packed_text,
    text_bytes,
    unpacked_text,
)
from linkqual.wire.requests import REQUESTS, checked

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=4)
NUMBERS = st.integers(0, 2**53 - 1)
MESSAGES = (
    st.builds(Request, NUMBERS, WORDS, OBJECTS)
    | st.builds(Answer, NUMBERS, OBJECTS)
    | st.builds(Refusal, NUMBERS, WORDS, WORDS, WORDS)
)


def parse(payload: bytes) -> Message | None:
    try:
        return decode(payload)
    except WireError:
        return None


@given(MESSAGES)
@settings(max_examples=60, deadline=None)
def test_what_goes_out_comes_back(message: Message) -> None:
    frame = encode(message)
    assert frame_length(frame[:4]) == len(frame) - 4
    assert decode(frame[4:]) == message


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_a_message_or_a_wire_error(payload: bytes) -> None:
    parse(payload)


@given(MESSAGES, st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_message_is_a_message_or_a_wire_error(message: Message, data: st.DataObject) -> None:
    payload = bytearray(encode(message)[4:])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    parse(bytes(payload[: data.draw(st.integers(0, len(payload)))]))


@given(st.sampled_from(sorted(REQUESTS)), OBJECTS)
@settings(max_examples=60, deadline=None)
def test_any_arguments_are_checked_or_a_wire_error(name: str, args: dict[str, object]) -> None:
    try:
        found = checked(Request(0, name, args))
    except WireError:
        return
    assert found.keys() == REQUESTS[name].keys()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"null",
        b'{"id":1}',
        b'{"id":true,"ok":{}}',
        b'{"id":-1,"ok":{}}',
        b'{"id":1.0,"ok":{}}',
        b'{"id":1,"ok":{},"error":{}}',
        b'{"id":1,"ok":{},"id":2}',
        b'{"id":1,"ok":{"x":NaN}}',
        b'{"id":1,"ok":{"x":1e999}}',
        b'{"id":1,"ok":{"x":Infinity}}',
        b'{"id":1,"ok":{"x":"\\ud800"}}',
        b'{"id":1,"do":"hello","args":{},"more":1}',
        b'{"id":1,"error":{"kind":"a","message":"b"}}',
        b'{"id":1,"ok":{"x":' + b"9" * 5000 + b"}}",
        b'{"id":1,"ok":' + b'{"x":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH + b"}",
        b'{"id":1,"ok":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"id":1,"ok":{"x":[' + b"1," * 200_000 + b"1]}}",
    ],
)
def test_what_is_no_message(payload: bytes) -> None:
    with pytest.raises(WireError):
        decode(payload)


@pytest.mark.parametrize("head", [b"", b"abc", b"\0\0\0\0", b"\0\0\0\1", b"\xff\xff\xff\xff", b"GET "])
def test_lengths_that_are_refused(head: bytes) -> None:
    with pytest.raises(WireError):
        frame_length(head)


def test_a_message_too_long_is_never_sent() -> None:
    with pytest.raises(WireError, match="over the limit"):
        encode(Answer(1, {"x": "y" * MAX_FRAME}))


def test_what_is_no_json_is_never_sent() -> None:
    with pytest.raises(WireError):
        encode(Answer(1, {"x": float("nan")}))
    with pytest.raises(WireError):
        encode(Answer(1, {"x": b"octets"}))


@pytest.mark.parametrize(
    ("name", "args", "complaint"),
    [
        ("rm -rf /", {}, "no request"),
        ("iperf3.open", {}, "seconds"),
        ("iperf3.open", {"seconds": "5"}, "number from"),
        ("iperf3.open", {"seconds": True}, "number from"),
        ("iperf3.open", {"seconds": 5, "streams": 0}, "from 1 to 128"),
        ("iperf3.open", {"seconds": 5, "args": "--file /etc/passwd"}, "no argument"),
        ("stamp.open", {"rate_pps": 1, "packet_bytes": 44, "seconds": 1, "authenticated": 1}, "true or false"),
        ("stamp.open", {"rate_pps": 1, "packet_bytes": 44, "seconds": 1, "timestamps": "utc"}, "one of ntp, ptp"),
        ("stamp.close", {"session": "x" * 65}, "at most 64"),
        ("stamp.arrived", {"session": "x", "first": 0, "count": 2**40}, "from 1 to"),
        ("hello", {"protocols": ["1"], "version": "", "nonce": "", "proof": ""}, "integers"),
    ],
)
def test_arguments_that_are_refused(name: str, args: dict[str, object], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        checked(Request(0, name, args))


def test_defaults_are_filled_in() -> None:
    assert checked(Request(0, "iperf3.open", {"seconds": 2.5})) == {
        "seconds": 2.5,
        "streams": 1,
        "congestion_control": "",
    }
    assert checked(Request(0, "trace.target", {"port": None})) == {"port": None, "seconds": 60}


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_octets_travel_as_text(data: bytes) -> None:
    assert text_bytes(bytes_text(data)) == data


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
@settings(max_examples=50, deadline=None)
def test_long_texts_travel_packed(text: str) -> None:
    assert unpacked_text(packed_text(text)) == text


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_text_unpacks_or_is_a_wire_error(packed: str) -> None:
    try:
        unpacked_text(packed)
    except WireError:
        return
    assert packed


def test_a_packed_bomb_does_not_go_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkqual.wire.control.MAX_TEXT", 1000)
    assert unpacked_text(packed_text("x" * 1000))
    with pytest.raises(WireError, match="too long"):
        unpacked_text(packed_text("x" * 1001))


def test_every_protocol_message_is_plain_json() -> None:
    frame = encode(Request(0, "hello", {"protocols": list(PROTOCOLS)}))
    assert json.loads(frame[4:]) == {"id": 0, "do": "hello", "args": {"protocols": [1]}}
