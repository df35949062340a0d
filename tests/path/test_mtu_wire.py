"""Questions and answers about the MTU, what travels over the control channel, and the MSS in a SYN."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from linkqual.errors import WireError
from linkqual.model import Direction, MtuHop, MtuTried, MtuWay
from linkqual.net.mtu_tcp import mss_of_syn
from linkqual.wire import mtu, mtu_json

TOKEN = bytes(range(8))
WAY = MtuWay(
    Direction.REVERSE, "told", 1500, 1500, 1400, 1401, "10.0.0.1", 1400, False,
    (MtuTried(1400, 10, 10), MtuTried(1401, 10, 0)), (MtuHop(1, "10.0.0.1", short=True, long=True), MtuHop(2)), 3, "",
)  # fmt: skip


def test_a_question_is_as_long_as_asked_and_its_answer_never_longer() -> None:
    for size in (mtu.SHORTEST, 1472, 9188):
        asked = mtu.question(TOKEN, 7, size)
        assert len(asked) == size
        assert mtu.asked(asked, TOKEN) == 7
        assert mtu.asked(asked[:25], TOKEN) == 7  # as a router quotes it
        answer = mtu.answer(TOKEN, 7, size, 576)
        assert len(answer) <= len(asked)
        assert mtu.got(answer, TOKEN) == mtu.Got(7, size, 576)


def test_octets_of_anybody_else_are_neither() -> None:
    asked, answer = mtu.question(TOKEN, 7, 100), mtu.answer(TOKEN, 7, 100)
    for wrong in (b"", asked[:24], bytes(100), answer):
        with pytest.raises(WireError):
            mtu.asked(wrong, TOKEN)
    for wrong in (answer[:-1], answer + b"\0", asked):
        with pytest.raises(WireError):
            mtu.got(wrong, TOKEN)
    with pytest.raises(WireError):
        mtu.asked(asked, bytes(8))


def test_what_the_far_end_found_travels_whole() -> None:
    assert mtu_json.decode(mtu_json.encode(WAY), Direction.REVERSE) == WAY


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "fine"}, {"passes": "1400"}, {"passes": -1}, {"fails": 2**40}, {"told_by": "router"}, {"fragmented": 1}, {"because": 7},
        {"tried": [{}]}, {"tried": 3}, {"hops": [{"ttl": None}]}, {"hops": [None] * 501}, {"interface_bytes": True},
    ],
)  # fmt: skip
def test_what_is_no_such_thing_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        mtu_json.decode(mtu_json.encode(WAY) | change, Direction.REVERSE)
    with pytest.raises(WireError):
        mtu_json.decode([], Direction.REVERSE)


def syn(options: bytes, version: int = 4) -> bytes:
    ip = b"\x45" + bytes(19) if version == 4 else b"\x60" + bytes(39)
    padded = options.ljust(-(-len(options) // 4) * 4, b"\0")
    return ip + bytes(12) + struct.pack("B", (5 + len(padded) // 4) << 4) + bytes(7) + padded


def test_the_mss_of_a_syn_is_read_wherever_it_stands() -> None:
    mss = b"\x02\x04\x05\xb4"
    assert mss_of_syn(syn(mss)) == mss_of_syn(syn(mss, 6)) == 1460
    assert mss_of_syn(syn(b"\x01\x01\x04\x02" + mss)) == 1460  # behind no-operations and SACK-permitted
    assert mss_of_syn(syn(b"\x00" + mss)) is None  # behind the end of the list
    assert mss_of_syn(syn(b"\x04\x00" + mss)) is None  # an option of no length
    assert mss_of_syn(syn(b"\x02\x04\x05")) in (None, 0x0500)
    assert mss_of_syn(b"") is None
    assert mss_of_syn(syn(mss)[:30]) is None
