"""Reflectors that are not ours: what their numbers tell of the way a packet was lost, and whole sessions with small ones."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual import rules
from linkqual.model import Direction, Link, Measurement, Objective, Outcome, Plan, Step
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.probes import foreign
from linkqual.probes import stamp as stamp_probe
from linkqual.probes.bench import Bench
from linkqual.probes.bench import Reflector as Foreign
from linkqual.records import ABSENT, Fate, Records, empty_records
from linkqual.session import attribution
from linkqual.session.attribution import FIRST_SEQ, RESTARTED, STATEFUL, STATELESS, UNTOLD, Numbers
from linkqual.session.mix import Mix
from tests.engine.relay import Relay


def far_end(order: list[int], answered: list[bool], first: int = 0) -> dict[int, int]:
    """A stateful reflector: packets in order of arrival -> number of the reply, for those whose reply came back."""
    return {seq: first + number for number, (seq, back) in enumerate(zip(order, answered, strict=True)) if back}


def table(count: int, replies: dict[int, int], unsent: tuple[int, ...] = ()) -> Records:
    rows = empty_records(count, FIRST_SEQ)
    rows["fate"] = Fate.LOST
    for seq, far in replies.items():
        rows["fate"][seq], rows["far_seq"][seq] = Fate.RECEIVED, far
    rows["fate"][list(unsent)] = Fate.UNSENT
    return rows


def through(rows: Records, cuts: list[int]) -> tuple[Records, Records, Numbers]:
    numbers = Numbers()
    out = [numbers.take(part) for part in np.split(rows, sorted(cuts))]
    rest, tail = numbers.close()
    return np.concatenate([*out, rest]), tail, numbers


def counts(rows: Records) -> tuple[int, int, int]:
    return tuple(int((rows["fate"] == fate).sum()) for fate in (Fate.LOST_FORWARD, Fate.LOST_REVERSE, Fate.LOST))


def test_the_golden_vector() -> None:
    """Ten packets; 2, 5 and 6 lost on the way there, the replies to 4 and 9 on the way back."""
    done, tail, numbers = through(table(10, {0: 0, 1: 1, 3: 2, 7: 4, 8: 5}), [])
    assert numbers.kind == STATEFUL
    assert counts(done) == (3, 1, 0)
    assert tail["seq"].tolist() == [FIRST_SEQ + 9]
    fates = {int(row["seq"]) - FIRST_SEQ: row["fate"] for row in done}
    assert fates[2] == Fate.LOST_FORWARD
    assert sum(fates[seq] == Fate.LOST_FORWARD for seq in (4, 5, 6)) == 2


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 1500))
def test_every_loss_gets_its_direction(data: st.DataObject, count: int) -> None:
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    there, back = draw.random(count) >= draw.choice([0, 0.01, 0.3]), draw.random(count) >= draw.choice([0, 0.01, 0.3])
    unsent = draw.random(count) < draw.choice([0, 0.02])
    there &= ~unsent
    order = np.flatnonzero(there).tolist()
    replies = far_end(order, back[order].tolist())
    rows = table(count, replies, tuple(np.flatnonzero(unsent).tolist()))
    done, tail, _ = through(rows, data.draw(st.lists(st.integers(0, count), max_size=6)))
    assert np.concatenate([done, tail])["seq"].tolist() == rows["seq"].tolist()
    within = len(done)
    assert counts(done) == ((~there & ~unsent)[:within].sum(), (there & ~back)[:within].sum(), 0)
    assert not (tail["fate"] == Fate.RECEIVED).any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(400, 3000))
def test_totals_hold_where_packets_overtake_each_other(seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    there, back = draw.random(count) >= 0.05, draw.random(count) >= 0.05
    there[-300:] = back[-300:] = True  # what is carried must find its gap
    there[:20] = back[:20] = True  # and the counter's begin be seen
    order = np.flatnonzero(there)
    late = draw.exponential(4, len(order)) * ((order >= 20) & (order < count - 300))
    order = order[np.argsort(order + late, kind="stable")].tolist()
    done, _, numbers = through(table(count, far_end(order, back[order].tolist())), [count // 3, count // 2])
    forward, reverse, unknown = counts(done)
    assert (forward + reverse, unknown) == ((~(there & back)).sum(), 0)
    assert forward - (~there).sum() == -numbers.carried
    assert abs(numbers.carried) <= 10


def test_a_loss_beside_packets_that_overtook_each_other_has_its_direction() -> None:
    done, _, numbers = through(table(5, far_end([0, 3, 2, 4], [True] * 4)), [])
    assert done["fate"][1] == Fate.LOST_FORWARD
    assert numbers.carried == 0


def test_a_copy_made_on_the_way_there_is_no_arrival_more() -> None:
    rows = table(6, {0: 0, 1: 1, 3: 3, 4: 4, 5: 5})  # packet 1 came twice and was answered twice; 2 never arrived
    rows["forward_copies"][1] = 1
    done, _, _ = through(rows, [])
    assert counts(done) == (1, 0, 0)


def test_a_stateless_reflector_is_known_by_the_numbers_it_copies() -> None:
    rows = table(9, {seq: FIRST_SEQ + seq for seq in (0, 1, 3, 4, 7)})
    done, tail, numbers = through(rows, [4])
    assert numbers.kind == STATELESS
    assert counts(done) == (0, 0, 3)
    assert (done["far_seq"] == ABSENT).all()
    assert len(tail) == 1


def test_a_counter_that_did_not_begin_with_us_tells_nothing_of_what_came_before() -> None:
    done, _, numbers = through(table(8, far_end([2, 3, 5, 6, 7], [True] * 5, first=90_000)), [])
    assert numbers.kind == STATEFUL
    assert done["fate"][:2].tolist() == [Fate.LOST, Fate.LOST]
    assert done["fate"][4] == Fate.LOST_FORWARD


@pytest.mark.parametrize(("first", "anew"), [(0, 0), (90_000, 0), (0, 3_000_000), (4_000_000_000, 2**32)])
def test_a_counter_that_begins_anew_gives_losses_no_direction_from_then_on(first: int, anew: int) -> None:
    lost, at = range(700, 6000, 100), 2000
    replies = far_end(list(range(at)), [seq not in lost for seq in range(at)], first)
    replies |= {seq: anew + seq - at for seq in range(at, 6000) if seq not in lost}
    done, tail, numbers = through(table(6000, replies), list(range(0, 6000, 250)))
    assert numbers.kind == RESTARTED
    assert counts(done)[0] == 0
    assert counts(done)[1] >= 10  # up to what was held when it began anew
    assert sum(counts(done)) == len(lost)
    assert (done["far_seq"][at:] == ABSENT).all()
    assert not len(tail)


@pytest.mark.parametrize("at", [60, 300, 3000])
def test_a_counter_begun_anew_lays_no_reverse_loss_on_the_way_there(at: int) -> None:
    replies = {seq: seq for seq in range(at)} | {seq: seq - at for seq in range(at, 8000) if seq % 97}
    done, _, numbers = through(table(8000, replies), list(range(0, 8000, 130)))
    assert numbers.kind == RESTARTED
    assert counts(done)[:2] == (0, 0)


def test_one_packet_long_under_way_is_no_counter_begun_anew() -> None:
    order = [0, *range(2, 5000), 1, *range(5000, 6000)]
    done, _, numbers = through(table(6000, far_end(order, [True] * 6000)), list(range(0, 6000, 250)))
    assert numbers.kind == STATEFUL
    assert (done["far_seq"] != ABSENT).all()


def test_without_any_reply_nothing_is_told() -> None:
    done, tail, numbers = through(table(500, {}), [100])
    assert (len(done), len(tail), numbers.kind) == (0, 500, UNTOLD)


def test_an_outage_longer_than_what_is_held_stays_without_a_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "_MOST_HELD", 600)
    lost = range(400, 2000)
    order = [seq for seq in range(3000) if seq not in lost]
    answered = [seq != 2500 for seq in order]
    done, tail, _ = through(table(3000, far_end(order, answered)), list(range(0, 3000, 100)))
    assert counts(done)[1] == 1
    assert counts(done)[2] >= 600
    assert sum(counts(done)) == 1601
    assert not len(tail)


# ---- whole sessions with a reflector written here, from RFC 5357 and RFC 8762 alone

ONE_WAY = (Direction.FORWARD, Direction.REVERSE)
NTP_1900 = 2_208_988_800


class TwampLight:
    """Session-Reflector of TWAMP Light (RFC 5357 section 4.2.1 and appendix I), stateful or not, with losses made to measure.

    `first`: of its counter. `deaf_to`, `mute_on`: how many-th requests are lost before it, and its replies after it. It knows nothing of RFC 8972.
    """

    def __init__(
        self,
        *,
        stateful: bool = True,
        ptp: bool = False,
        deaf_to: frozenset[int] = frozenset(),
        mute_on: frozenset[int] = frozenset(),
        longest: int = 9000,
        blind: bool = False,
        first: int = 0,
        fixed: bytes = b"",
        noise: bool = False,
    ) -> None:
        self.stateful, self.ptp, self.deaf_to, self.mute_on, self.longest = stateful, ptp, deaf_to, mute_on, longest
        self.first, self.fixed = first, fixed  # all its stamps
        self.noise = noise  # echoes numbers that were never sent
        self.blind = blind  # leaves T2 zero
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.05)
        self.port = self.socket.getsockname()[1]
        self.lengths: list[int] = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self) -> TwampLight:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.thread.join()
        self.socket.close()

    def stamp(self) -> bytes:
        if self.fixed:
            return self.fixed
        seconds, rest = divmod(time.time_ns(), 10**9)
        if self.ptp:
            return struct.pack("!II", seconds, rest)
        return struct.pack("!II", (seconds + NTP_1900) % 2**32, (rest << 32) // 10**9)

    def serve(self) -> None:
        came, counted = 0, 0
        while not self.ending.is_set():
            try:
                request, ancillary, _, sender = self.socket.recvmsg(9000, 64)
            except TimeoutError:
                continue
            received, number = bytes(8) if self.blind else self.stamp(), came
            came += 1
            self.lengths.append(len(request))
            if number in self.deaf_to:
                continue
            sequence = struct.pack("!I", (self.first + counted) % 2**32) if self.stateful else request[:4]
            counted += 1
            if number in self.mute_on:
                continue
            ttl = ancillary[0][2][0]
            error = b"\xc1\x05" if self.ptp else b"\x81\x05"
            reply = sequence + self.stamp() + error + bytes(2) + received + request[:14] + bytes(2) + bytes([ttl])
            if self.noise:
                reply = reply[:24] + b"\x70\0\0\0" + reply[28:]
            self.socket.sendto((reply + os.urandom(9000))[: min(len(request), self.longest)], sender)


def measured(port: int, packets: int = 300, key: bytes = b"", **params: Any) -> Measurement:
    settings = {"rate_pps": 1000, "packet_bytes": 64, "timeout_ns": 1_000_000_000, "enough": packets, "fixed": True}
    span = packets * 1_000_000 + 10**9
    step = Step("stamp", "stamp", settings | params, packets=packets, duration_ns=span, expected_ns=span)
    return stamp_probe.measure(step, Bench("127.0.0.1", "127.0.0.1", reflector=Foreign(port, key)))


class Lossy(Relay):
    """Loses the how many-th packets of either way that it is told to."""

    def __init__(self, port: int, deaf_to: frozenset[int], mute_on: frozenset[int]) -> None:
        super().__init__(port)
        self.deaf_to, self.mute_on = deaf_to, mute_on

    def request(self, data: bytes, number: int) -> bytes | None:
        return None if number in self.deaf_to else data

    def reply(self, data: bytes, number: int) -> bytes | None:
        return None if number in self.mute_on else data


THERE, BACK = frozenset({10, 11, 12, 100, 250}), frozenset({30, 200, 201, 299})


@pytest.mark.loopback
def test_a_stateful_reflector_gives_every_loss_its_direction_and_sizes_go_out_as_drawn() -> None:
    mix = [[64, 7], [594, 4], [1400, 1]]
    with TwampLight(deaf_to=THERE, mute_on=BACK) as far:
        found = measured(far.port, rate_pps=3000, packet_bytes=1400, mix=mix, seed=3)
    drawn = Mix(mix, 3)
    assert far.lengths == drawn.sizes[drawn.kinds(FIRST_SEQ, len(far.lengths))].tolist()
    assert len(set(far.lengths)) == 3
    assert found.fault is None
    assert found.stamp is not None
    summary = found.stamp.summary
    assert found.stamp.far_end == STATEFUL
    assert (summary.sent, summary.received) == (300, 300 - len(THERE) - len(BACK))
    assert (summary.lost_forward, summary.lost_reverse, summary.lost) == (len(THERE), len(BACK), 0)
    assert summary.forward_hops == {"255": summary.received}
    assert summary.round_trip_delay.minimum is not None
    assert 0 < summary.round_trip_delay.minimum < 50_000_000
    notes = " ".join(found.conditions.far.notes)
    assert "stateful" in notes
    assert "no SSID back" in notes
    assert "stamps in NTP format and says that its clock is held to UTC" in notes
    assert found.conditions.far.stamps == {"T2": "user", "T3": "user"}


@pytest.mark.loopback
@pytest.mark.parametrize("first", [3_000_000_000, 2**32 - 150])
def test_a_counter_may_begin_anywhere_and_wrap(first: int) -> None:
    with TwampLight(deaf_to=THERE, mute_on=BACK, first=first) as far:
        found = measured(far.port)
    assert found.fault is None
    assert found.stamp is not None
    summary = found.stamp.summary
    assert found.stamp.far_end == STATEFUL
    assert (summary.lost_forward, summary.lost_reverse, summary.lost) == (len(THERE), len(BACK), 0)
    assert (summary.reordered_forward, summary.reordered_reverse) == (0, 0)


@pytest.mark.loopback
def test_a_stateless_reflector_knows_no_directions() -> None:
    with TwampLight(stateful=False, ptp=True, deaf_to=THERE, mute_on=BACK, longest=41) as far:
        found = measured(far.port)
    assert found.stamp is not None
    summary = found.stamp.summary
    assert found.stamp.far_end == STATELESS
    assert (summary.lost_forward, summary.lost_reverse, summary.lost) == (0, 0, len(THERE) + len(BACK))
    notes = " ".join(found.conditions.far.notes)
    assert "no direction" in notes
    assert "stamps in PTP format" in notes
    assert summary.round_trip_delay.minimum is not None
    assert 0 < summary.round_trip_delay.minimum < 50_000_000


@pytest.mark.loopback
@pytest.mark.parametrize(("packet_bytes", "key"), [(88, b""), (176, bytes(range(32)))], ids=["plain", "signed"])
def test_our_own_reflector_without_state_tells_directions_by_direct_measurement_alone(
    packet_bytes: int, key: bytes
) -> None:
    config = ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=None, stateless=True, foreign=True, key=key.hex())
    back = frozenset({20, 150, 151, 270})  # of the replies, which are fewer by what was lost on the way there
    with Reflector.start(config) as ours, Lossy(ours.port, THERE, back) as way:
        found = measured(way.port, key=key, packet_bytes=packet_bytes)
    assert found.stamp is not None
    summary = found.stamp.summary
    assert summary.received == 300 - len(THERE) - len(back)
    assert (summary.lost_forward, summary.lost_reverse, summary.lost) == (len(THERE), len(back), 0)
    assert found.conditions.far.stamps["T2"] == "user"  # as it says itself: by software


@pytest.mark.loopback
def test_a_reflector_that_falls_silent_is_no_loss_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "SILENCE_NS", 50_000_000)
    with TwampLight(deaf_to=frozenset(range(150, 1000))) as far:
        found = measured(far.port)
    assert found.fault is not None
    assert found.fault.kind == "silent"
    assert "the 150 packets after its last reply are not counted" in found.fault.message
    assert found.stamp is not None
    assert (found.stamp.summary.sent, found.stamp.summary.received) == (150, 150)


@pytest.mark.loopback
@pytest.mark.parametrize("fixed", [bytes(8), bytes([230, 1] * 4)], ids=["zero", "standing"])
def test_a_reflector_that_does_not_stamp_tells_no_delay_of_one_direction(fixed: bytes) -> None:
    with TwampLight(fixed=fixed) as far:
        found = measured(far.port, packets=200)
    assert found.stamp is not None
    summary = found.stamp.summary
    assert (summary.received, summary.round_trip_delay.n, summary.residence.n, summary.clock_steps) == (200, 200, 0, ())
    assert summary.forward_delay.n == summary.reverse_delay.n == 0
    notes = " ".join(found.conditions.far.notes)
    assert "the reflector does not stamp" in notes
    assert found.conditions.far.stamps == {}
    lines = tuple(Objective(metric, "p99", way, 1e6) for metric in ("pdv", "one_way_delay") for way in ONE_WAY)
    verdict = rules.judge(Plan("p", (), lines, Link()), (found,))
    assert {each.outcome for each in verdict.findings} == {Outcome.NO_DATA}
    assert all("does not stamp" in each.because for each in verdict.findings)
    assert "±" not in " ".join(note.sentence for note in verdict.notes)


@pytest.mark.loopback
def test_stamps_that_cannot_be_give_no_delay_of_one_direction() -> None:
    with TwampLight(blind=True) as far:
        found = measured(far.port, packets=200)
    assert found.stamp is not None
    summary = found.stamp.summary
    assert (summary.received, summary.round_trip_delay.n, summary.forward_delay.n) == (200, 200, 0)


@pytest.mark.loopback
def test_packets_that_are_no_reply_are_said_beside_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "SILENCE_NS", 50_000_000)
    with TwampLight(noise=True) as far:
        found = measured(far.port, timeout_ns=300_000_000)
    assert found.fault is not None
    count = len(far.lengths)
    assert found.fault.message.endswith(f"{count:,} packets came back that are no STAMP reply of this session")
    assert found.stamp is not None
    assert found.stamp.summary.sent == 0


@pytest.mark.loopback
def test_nobody_there_is_said_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    found = measured(port, packets=100_000)
    assert found.fault is not None
    assert found.fault.kind == "unreachable"
    assert f"nothing listens at UDP port {port}" in found.fault.message
    assert found.stamp is not None
    assert found.stamp.summary.sent == 0  # no loss of a line


@pytest.mark.loopback
def test_a_reflector_that_does_not_know_the_key_is_said_to_give_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "SILENCE_NS", 50_000_000)
    with TwampLight() as far:
        found = measured(far.port, key=b"key", packet_bytes=176, timeout_ns=300_000_000)
    assert found.fault is not None
    assert found.fault.message == f"127.0.0.1:{far.port} answers no probe"
    assert "with this key" in found.fault.hint
    assert "replies were not signed with this key" in " ".join(found.conditions.far.notes)
