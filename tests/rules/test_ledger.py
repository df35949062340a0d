"""Where lost packets went: entries add up, hosts are guilty by their own words only, and what is in doubt fails no line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual import document, rules
from linkqual.model import (
    Burst,
    Conditions,
    Direction,
    EndConditions,
    Fault,
    Link,
    Measurement,
    Objective,
    Outcome,
    Pacing,
    Plan,
    Step,
    Summary,
    Tally,
)
from linkqual.rules.hosts import own_socket_drops
from linkqual.rules.ledger import Address, Entry, doubts, ledger
from linkqual.stats.tally import tally

from ..scenarios.streams import FORWARD, REVERSE, ROUND_TRIP, one, stamp

GONE = Fault("peer-lost", "the agent at the far end has gone away")
SILENT = Fault("silent", "the line went silent")


def measured(
    forward: int = 0,
    reverse: int = 0,
    unknown: int = 0,
    near: EndConditions | None = None,
    far: EndConditions | None = None,
    fault: Fault | None = None,
    sent: int = 10_000,
    **more: object,
) -> Measurement:
    """Counts as a stream that lost evenly would give them."""

    def lost(n: int, bad: int) -> Tally:
        return tally([True, False] * bad + [False] * (n - 2 * bad))

    received = sent - forward - reverse - unknown
    loss = {
        "forward": lost(sent, forward + unknown),
        "reverse": lost(sent - forward, reverse + unknown),
        "round-trip": lost(sent, sent - received),
    }
    summary = Summary(
        sent, 0, received, forward, reverse, unknown, loss={str(key): value for key, value in loss.items()}, **more
    )  # type: ignore[arg-type]
    state = Conditions(near or EndConditions(), far or EndConditions(), same_clock=True)
    return replace(stamp(summary, 1000, state), fault=fault)


def end(counters: dict[str, int] | None = None, **drops: int) -> EndConditions:
    """Names with a colon in them are written with two underscores."""
    return EndConditions(
        drops={name.replace("__", ":"): count for name, count in drops.items()}, counters=counters or {}
    )


def addresses(found: Measurement) -> dict[str, int]:
    totals: dict[str, int] = {}
    for entry in ledger(found):
        totals[str(entry.address)] = totals.get(str(entry.address), 0) + entry.packets
    return totals


def entry_with(found: Measurement, words: str) -> Entry:
    (entry,) = [entry for entry in ledger(found) if words in entry.because]
    return entry


def test_without_other_suspects_it_is_the_line() -> None:
    found = measured(12, 7)
    assert addresses(found) == {"line, forward": 12, "line, reverse": 7}
    assert doubts(found, FORWARD) == doubts(found, REVERSE) == doubts(found, ROUND_TRIP) == []
    assert ledger(measured()) == ()
    assert ledger(Measurement(Step("ping", "ping"), 0, 0)) == ()


def test_a_socket_that_had_no_room_is_its_hosts() -> None:
    found = measured(12, 7, near=end(socket_drops=5), far=end(socket_drops=9, UdpRcvbufErrors=9, UdpInCsumErrors=0))
    assert addresses(found) == {"far host": 9, "near host": 5, "line, forward": 3, "line, reverse": 2}
    assert "rmem_max" in entry_with(found, "far end's receive socket").remedy


def test_other_programs_full_sockets_are_none_of_ours() -> None:
    """The probe's socket tells that it dropped nothing: the host's counters are then somebody else's."""
    found = measured(12, 7, near=end(socket_drops=0, UdpRcvbufErrors=500), far=end(socket_drops=0, Udp6InErrors=500))
    assert addresses(found) == {"line, forward": 12, "line, reverse": 7}
    unknown = measured(12, 7, near=end(UdpRcvbufErrors=500), far=end(Udp6InErrors=500))
    assert addresses(unknown) == {"not attributed": 19}


def test_damaged_packets_are_the_lines_although_a_socket_dropped_them() -> None:
    damaged = measured(40, far=end(socket_drops=40, UdpRcvbufErrors=0, UdpMemErrors=0, UdpInCsumErrors=40))
    assert addresses(damaged) == {"line, forward": 40}
    mixed = measured(40, far=end(socket_drops=30, UdpRcvbufErrors=25, UdpInCsumErrors=12))
    assert addresses(mixed) == {"far host": 18, "not attributed": 7, "line, forward": 15}


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 60), st.integers(0, 60))
def test_how_many_a_socket_dropped_for_want_of_room(
    full: int, damaged: int, others_full: int, others_damaged: int
) -> None:
    """Whatever else the host's counters count, the truth lies within what is said."""
    counted = {"UdpRcvbufErrors": full + others_full, "UdpInCsumErrors": damaged + others_damaged}
    surely, perhaps = own_socket_drops(end(socket_drops=full + damaged, **counted))
    assert surely <= full <= surely + perhaps <= full + damaged
    alone = own_socket_drops(end(socket_drops=full + damaged, UdpRcvbufErrors=full, UdpInCsumErrors=damaged))
    assert alone == (full, 0)


@pytest.mark.parametrize(
    ("far", "why"),
    [
        (end(socket_drops=60), "copies or others' among them"),  # more than were lost
        (end({"replayed": 3}, socket_drops=9), "copies or others' among them"),
        (end({"malformed": 1}, socket_drops=9), "copies or others' among them"),
        (end(socket_drops=0, drops_before_peer=9), "before it knew its peer"),
    ],
)
def test_strangers_in_the_drop_counter_make_doubt(far: EndConditions, why: str) -> None:
    found = measured(40, far=far)
    entry = entry_with(found, why)
    assert entry.address is Address.UNATTRIBUTED
    assert entry.packets == min(40, sum(far.drops.values()))


def test_copies_in_the_drop_counter_make_doubt() -> None:
    found = measured(0, 40, near=end(socket_drops=9), duplicates_reverse=1)
    assert addresses(found) == {"not attributed": 9, "line, reverse": 31}


def test_replies_a_far_end_kept_waiting_are_its_own_whatever_it_said_when_asked() -> None:
    found = measured(4, 3, near=end({"late": 9, "held": 5}))
    assert addresses(found) == {"far host": 5, "line, forward": 2}
    assert {entry.way for entry in doubts(found, ROUND_TRIP)} == {FORWARD, REVERSE}
    assert addresses(measured(4, 3, near=end({"late": 9}))) == {"line, forward": 4, "line, reverse": 3}


def test_what_the_far_end_turned_away_or_could_not_send_is_its_own() -> None:
    found = measured(10, 8, far=end({"over_cap": 4, "unanswered": 3}))
    assert addresses(found) == {"far host": 7, "line, forward": 10, "line, reverse": 1}  # both had arrived
    assert "--max-pps" in entry_with(found, "caps").remedy


@pytest.mark.parametrize(
    ("near", "far", "forward", "reverse"),
    [
        (end(eth0__qdisc_drops=3), end(), 3, 0),
        (end({"queue_refusals": 3}, eth0__qdisc_drops=3), end(), 0, 0),  # told to the sender: never left, not lost
        (end({"queue_refusals": 2}, eth0__qdisc_drops=3), end(), 1, 0),
        (end(eth0__tx_dropped=2), end(eth0__tx_fifo=4), 2, 4),
        (end(), end(softnet_dropped=2, eth0__rx_fifo=1), 3, 0),
        (end(eth0__ingress_drops=2), end(), 0, 2),
        (end(), end(**{"eth0__nic/rx_out_of_buffer": 5}), 5, 0),
        (end(**{"eth0__nic/tx_dropped": 5}), end(), 5, 0),
        (end(eth0__rx_dropped=9, softnet_squeezed=9, eth0__qdisc_requeues=9, UdpSndbufErrors=9), end(), 0, 0),
        (end(lo__tx_dropped=9), end(lo__qdisc_drops=9), 0, 0),
    ],
)
def test_counters_of_all_traffic_are_doubt(near: EndConditions, far: EndConditions, forward: int, reverse: int) -> None:
    found = measured(50, 50, near=near, far=far)
    assert sum(entry.packets for entry in doubts(found, FORWARD)) == forward
    assert sum(entry.packets for entry in doubts(found, REVERSE)) == reverse
    assert {entry.address for entry in doubts(found, ROUND_TRIP)} <= {Address.UNATTRIBUTED}


def test_losses_in_the_senders_own_bursts_are_doubt() -> None:
    pacing = Pacing(50_000, 100, beyond=2, lost_forward=5, lost_reverse=3, longest=Burst(731, 0, 9_000_000))
    found = measured(6, 3, pacing=pacing)
    assert addresses(found) == {"not attributed": 8, "line, forward": 1}
    assert "bursts of more than 100 packets" in doubts(found, FORWARD)[0].because
    assert "731" in doubts(found, FORWARD)[0].because


def test_a_far_end_that_left_without_its_counters() -> None:
    found = measured(30, 5, fault=GONE)
    assert addresses(found) == {"not attributed": 35}
    assert addresses(measured(30, 5, fault=Fault("interrupted", "Ctrl-C"))) == {"line, forward": 30, "line, reverse": 5}
    process = measured(30, 5, far=end({"answered": 9_970}, socket_drops=0), fault=GONE)
    assert addresses(process) == {"not attributed": 35}
    both = measured(30, 5, far=end({"answered": 9_970}, socket_drops=0, softnet_dropped=0), fault=GONE)
    assert addresses(both) == {"line, forward": 30, "line, reverse": 5}


def test_a_direction_nobody_could_tell() -> None:
    found = measured(unknown=30, near=end(socket_drops=4))
    assert addresses(found) == {"near host": 4, "not attributed": 26}
    assert sum(entry.packets for entry in doubts(found, FORWARD)) == 30
    assert sum(entry.packets for entry in doubts(found, ROUND_TRIP)) == 4  # the line's, whichever way
    silent = measured(unknown=30, fault=SILENT)
    assert sum(entry.packets for entry in doubts(silent, ROUND_TRIP)) == 30
    assert "line and far host look the same" in ledger(silent)[0].because


counts = st.integers(0, 60)
NAMES = (
    "socket_drops",
    "drops_before_peer",
    "UdpRcvbufErrors",
    "UdpInCsumErrors",
    "softnet_dropped",
    "eth0__qdisc_drops",
    "eth0__rx_fifo",
)
COUNTED = ("over_cap", "unanswered", "replayed", "queue_refusals", "late", "held")
ends = st.builds(
    lambda drops, counters: end(counters, **drops),
    st.dictionaries(st.sampled_from(NAMES), counts, max_size=4),
    st.dictionaries(st.sampled_from(COUNTED), counts, max_size=2),
)
lines = st.builds(
    measured, counts, counts, counts, ends, ends,
    st.sampled_from([None, GONE, SILENT]),
    pacing=st.builds(lambda f, r, u: Pacing(1e6, 64, beyond=1, lost_forward=f, lost_reverse=r, lost=u), counts, counts, counts),
    duplicates_forward=st.sampled_from([0, 0, 5]),
)  # fmt: skip
LOSS = tuple(Objective("loss_ratio", "ratio", way, 1e-3) for way in Direction)


@given(lines)
def test_every_lost_packet_has_one_address_and_doubt_is_what_is_left_of_the_line(found: Measurement) -> None:
    assert found.stamp is not None
    summary, entries = found.stamp.summary, ledger(found)
    assert sum(entry.packets for entry in entries) == summary.sent - summary.received
    assert all(entry.packets > 0 and entry.because for entry in entries)
    assert all(entry.remedy for entry in entries if not entry.holds)
    line = {address: sum(one.packets for one in entries if one.address is address) for address in Address}
    own = {FORWARD: summary.lost_forward, REVERSE: summary.lost_reverse}
    for way, address in ((FORWARD, Address.LINE_FORWARD), (REVERSE, Address.LINE_REVERSE)):
        assert sum(one.packets for one in doubts(found, way)) == own[way] + summary.lost - line[address]
    assert ledger(found) == ledger(_stored(found))


@given(lines)
def test_a_line_fails_only_by_what_is_certainly_its_own_and_passes_counting_everything(found: Measurement) -> None:
    verdict = rules.judge(Plan("p", (), LOSS, Link()), (found,))
    innocent = rules.judge(Plan("p", (), LOSS, Link()), (replace(found, conditions=Conditions(same_clock=True), fault=None,
                                                                 stamp=replace(found.stamp, summary=replace(found.stamp.summary, pacing=Pacing()))),))  # type: ignore[type-var, union-attr] # fmt: skip
    for finding, bare in zip(verdict.findings, innocent.findings, strict=True):
        certain = _certain(found, finding.objective.direction)
        if finding.outcome is Outcome.FAIL:
            assert certain > 10_000 * 1e-3
        if finding.outcome is Outcome.PASS:
            assert bare.outcome is Outcome.PASS
        if bare.outcome is Outcome.FAIL and finding.outcome is not Outcome.FAIL:
            assert "may be no loss of this line" in finding.because
            assert finding.decide


def _certain(found: Measurement, way: Direction) -> int:
    return sum(entry.packets for entry in ledger(found) if way in entry.holds)


def _stored(found: Measurement) -> Measurement:
    from linkqual.model import SCHEMA, Profile, Qualification

    q = Qualification(SCHEMA, "0", "run", 0, 1, Profile("p", "", "", (), {}), Plan("p", (), (), Link()), "", (found,))
    return document.load(document.dump(q)).measurements[0]


def test_the_finding_says_whose_it_may_be_and_what_to_do() -> None:
    found = measured(40, far=end(socket_drops=36, UdpRcvbufErrors=36, UdpInErrors=36))
    verdict = rules.judge(Plan("p", (), LOSS[:1], Link()), (found,))
    finding = one(verdict, LOSS[0].key)
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "36 dropped by the far end's receive socket" in finding.because
    assert "rmem_max" in finding.decide
    notes = "".join(note.sentence for note in verdict.notes)
    assert "UdpRcvbufErrors +36" in notes
    assert "36 of the lost packets were its own doing" in notes
    maybe = rules.judge(Plan("p", (), LOSS[:1], Link()), (measured(40, far=end(softnet_dropped=36)),))
    assert "up to 36 of the 40 forward losses may be its own" in "".join(note.sentence for note in maybe.notes)


def test_a_reflector_of_others_tells_nothing_of_its_host() -> None:
    found = measured(7, 3)
    assert found.stamp is not None
    foreign = replace(found, stamp=replace(found.stamp, far_end="stateful"))
    assert addresses(foreign) == {"not attributed": 10}
    assert entry_with(foreign, "dropped itself").packets == 7
    assert entry_with(foreign, "its own queues dropped").packets == 3


def test_when_a_host_dropped_is_told() -> None:
    far = replace(
        end(socket_drops=36),
        drop_times=((1_764_487_001 * 10**9, "socket_drops", 30), (1_764_487_004 * 10**9, "socket_drops", 6)),
    )
    verdict = rules.judge(Plan("p", (), LOSS[:1], Link()), (measured(40, far=far),))
    assert "seen from 07:16:41 to 07:16:44 UTC" in "".join(note.sentence for note in verdict.notes)
