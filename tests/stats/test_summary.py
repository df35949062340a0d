from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.model import Direction, Edge, Objective, Summary
from linkqual.records import ABSENT, Fate, Stamp
from linkqual.stats import arrivals, histogram, loss, query
from linkqual.stats.histogram import quantile
from linkqual.stats.pacing import Audit
from linkqual.stats.reorder import reordered
from linkqual.stats.summary import Summarizer, merge

F, R, RT = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP

OBJECTIVES = (
    *(Objective("loss_ratio", "ratio", each, 1e-5) for each in Direction),
    Objective("round_trip_delay", "p99", RT, 10_400_000),
    Objective("one_way_delay", "p99.9", F, 5_300_000),
    Objective("pdv", "p99", R, 300_000),
    Objective("ipdv", "p99", F, 300_000),
    Objective("round_trip_delay", "p50", RT, None),  # depends on a fact not given: measured, not judged
)
FAULTS = {
    "loss_forward": 0.02,
    "loss_reverse": 0.03,
    "lost": 0.01,
    "unsent": 0.01,
    "duplicates": 0.02,
    "user_t3": 0.05,
    "late": 0.5,
}


def summarise(records, cuts=(), **kw) -> Summary:
    made = Summarizer(OBJECTIVES, audit=Audit(1000, most=1), **kw)
    for part in np.split(records, list(cuts)):
        made.add(part)
    return made.summary()


def test_counts_are_those_of_the_rows(stream):
    made = stream(20_000, 1, **FAULTS)
    found = summarise(made)
    fates = {fate: int((made["fate"] == fate).sum()) for fate in Fate}
    assert found.sent == 20_000 - fates[Fate.UNSENT]
    assert (found.received, found.unsent) == (fates[Fate.RECEIVED], fates[Fate.UNSENT])
    assert (found.lost_forward, found.lost_reverse, found.lost) == (
        fates[Fate.LOST_FORWARD],
        fates[Fate.LOST_REVERSE],
        fates[Fate.LOST],
    )
    assert found.sent == found.received + found.lost_forward + found.lost_reverse + found.lost
    assert found.late == int(((made["fate"] == Fate.LOST) & (made["received_ns"] != ABSENT)).sum()) > 0
    assert found.duplicates_forward == made["forward_copies"].sum()
    assert found.duplicates_reverse == made["reverse_copies"].sum()
    assert found.unstamped == found.received - found.round_trip_delay.n > 0
    assert sum(found.reverse_hops.values()) == found.received
    assert found.forward_hops == {"61": found.received}
    assert set(found.reverse_hops) == {"60", "61"}
    assert (found.first_sent_ns, found.last_sent_ns) == (
        made["sent_ns"][made["sent_ns"] != ABSENT].min(),
        made["sent_ns"].max(),
    )


def test_losses_of_unknown_direction_count_against_both(stream):
    found = summarise(stream(5000, 2, loss_forward=0.02, loss_reverse=0.03, lost=0.01))
    assert found.loss[F].bad == found.lost_forward + found.lost
    assert found.loss[R].bad == found.lost_reverse + found.lost
    assert found.loss[R].n == found.sent - found.lost_forward
    assert found.loss[RT].bad == found.sent - found.received
    for each in Direction:
        assert found.over[f"loss_ratio/{each}/ratio"] == found.loss[each]


def test_delays_are_exact_in_their_extremes_and_close_in_their_quantiles(stream):
    made = stream(30_000, 3)
    found = summarise(made)
    rtt = np.sort((made["received_ns"] - made["sent_ns"]) - (made["far_sent_ns"] - made["far_received_ns"]))
    there = made["far_received_ns"] - made["sent_ns"]
    assert (found.round_trip_delay.minimum, found.round_trip_delay.maximum) == (rtt[0], rtt[-1])
    for q in (0.5, 0.99, 0.999):
        exact = rtt[histogram.quantile_rank(rtt.size, q) - 1]
        assert quantile(found.round_trip_delay, q) == pytest.approx(exact, rel=0.0005)
    pdv = query.distribution(found, "pdv", F)
    assert (pdv.minimum, pdv.maximum) == (0, there.max() - there.min())
    assert found.ipdv[F].n == 29_999
    assert found.ipdv[F].maximum == np.abs(np.diff(there)).max()
    assert found.residence.minimum >= 5000


def test_only_judged_objectives_are_tallied(stream):
    found = summarise(stream(100, 1))
    assert set(found.over) == {each.key for each in OBJECTIVES if each.limit is not None}
    assert found.over["ipdv/forward/p99"].n == 99


def test_nothing_sent_is_an_empty_summary(stream):
    assert summarise(stream(0)).sent == 0
    unsent = summarise(stream(10, unsent=1.0))
    assert (unsent.sent, unsent.unsent, unsent.slices, unsent.first_sent_ns) == (0, 10, (), None)
    some = summarise(stream(50, 1))
    assert merge(unsent, some) == dataclasses.replace(some, unsent=10) == merge(some, unsent)


# ---- laws


@pytest.mark.parametrize("jitter_ns", [1000, 300_000])
def test_chunks_of_any_size_give_the_same_summary(stream, jitter_ns):
    made = stream(30_000, 4, pace_ns=100_000, jitter_ns=jitter_ns, **FAULTS)
    whole = summarise(made)
    assert summarise(made, range(0, 30_000, 777)) == whole
    assert summarise(made, [1, 2, 3, 8191, 8192, 8193, 20_000]) == whole


def test_looking_at_a_summary_in_between_changes_nothing(stream):
    made = stream(9000, 5, pace_ns=100_000, **FAULTS)
    looked = Summarizer(OBJECTIVES, audit=Audit(1000, most=1))
    for part in np.array_split(made, 30):
        looked.add(part)
        looked.summary()
    assert looked.summary() == summarise(made)


def test_a_chunk_may_be_overwritten_once_it_was_added(stream):
    made = stream(500, 6)
    counted = Summarizer()
    buffer = made.copy()
    counted.add(buffer)
    buffer["fate"] = Fate.LOST
    assert counted.summary().received == 500


def assert_same(merged: Summary, whole: Summary) -> None:
    """Equal but for what `stats.merging` names as exceptions."""
    for field in dataclasses.fields(Summary):
        ours, theirs = getattr(merged, field.name), getattr(whole, field.name)
        if field.name == "slices":
            blank = {"rtt_p50_ns": None, "rtt_p99_ns": None, "forward_pdv_p99_ns": None, "reverse_pdv_p99_ns": None}
            ours, theirs = ([dataclasses.replace(each, **blank) for each in side] for side in (ours, theirs))
        elif field.name == "jitter_rfc3550_ns":
            assert set(ours) == set(theirs)
            continue
        elif field.name == "over":
            ours, theirs = ({key: side[key] for key in side if "pdv" not in key} for side in (ours, theirs))
        elif field.name == "edges":
            ours, theirs = (
                {key: dataclasses.replace(side[key], first_arrived_ns=0, last_arrived_ns=0) for key in side}
                for side in (ours, theirs)
            )
        assert ours == theirs, field.name


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 400), st.sampled_from([20_000, 150_000]), st.integers(1, 3))
def test_two_parts_merge_to_the_whole(stream, seed, cut, jitter_ns, gap):
    made = stream(400, seed, pace_ns=100_000, jitter_ns=jitter_ns, **FAULTS)
    parts = [summarise(part, gap=gap) for part in np.split(made, [cut])]
    assert_same(merge(*parts), summarise(made, gap=gap))


def test_many_parts_merge_to_the_whole_in_any_grouping(stream):
    made = stream(4000, 7, pace_ns=100_000, jitter_ns=100_000, **FAULTS)
    a, b, c, d = (summarise(part, start_slice_ns=1_000_000) for part in np.split(made, [1, 1500, 2900]))
    whole = summarise(made, start_slice_ns=1_000_000)
    for merged in (merge(merge(merge(a, b), c), d), merge(a, merge(b, merge(c, d))), merge(merge(a, b), merge(c, d))):
        assert_same(merged, whole)
    assert sum(histogram.count_above(each.round_trip_delay, 1e7) for each in (a, b, c, d)) == histogram.count_above(
        whole.round_trip_delay, 1e7
    )


def test_jitter_of_rfc_3550_merges_when_nothing_crosses_the_cut(stream):
    made = stream(600, 8, jitter_ns=100_000)
    whole = summarise(made)
    for cut in (1, 2, 300, 598, 599):
        merged = merge(*(summarise(part) for part in np.split(made, [cut])))
        assert merged.jitter_rfc3550_ns == pytest.approx(whole.jitter_rfc3550_ns)


def test_jitter_of_rfc_3550_follows_the_order_of_arrival(stream):
    made = stream(300, 9, pace_ns=50_000, jitter_ns=300_000)
    transit = (made["far_received_ns"] - made["sent_ns"])[np.argsort(made["far_seq"])]
    value = 0.0
    for step in np.abs(np.diff(transit)):
        value += (step - value) / 16
    assert summarise(made).jitter_rfc3550_ns[F] == pytest.approx(value)


@pytest.mark.parametrize("offset_ns", [48_000_000, -3_600_000_000_000])
def test_a_constant_clock_offset_changes_no_round_trip_no_loss_and_no_variation(stream, offset_ns):
    true, shifted = (summarise(stream(8000, 10, offset_ns=each, **FAULTS)) for each in (0, offset_ns))
    for name in (
        "round_trip_delay",
        "residence",
        "loss",
        "ipdv",
        "loss_events",
        "reordered_forward",
        "reordered_reverse",
    ):
        assert getattr(shifted, name) == getattr(true, name)
    assert shifted.forward_delay.minimum == true.forward_delay.minimum + offset_ns
    assert shifted.reverse_delay.minimum == true.reverse_delay.minimum - offset_ns
    for each in (F, R):
        ours, theirs = (query.distribution(side, "pdv", each) for side in (shifted, true))
        assert ours.maximum == theirs.maximum
        for q in (0.5, 0.99, 0.999):
            assert abs(quantile(ours, q) - quantile(theirs, q)) <= theirs.width
    assert shifted.over["pdv/reverse/p99"] == true.over["pdv/reverse/p99"]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_duplicates_never_lower_loss(stream, seed):
    made = stream(300, seed, loss_forward=0.05, loss_reverse=0.05)
    copied = made.copy()
    copied["forward_copies"] += 1
    copied["reverse_copies"] += 3
    plain, doubled = summarise(made), summarise(copied)
    assert doubled.loss == plain.loss
    assert doubled.duplicates_reverse == 3 * 300
    for each in Direction:
        assert loss.ratio(doubled, each) == loss.ratio(plain, each)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_reordering_never_raises_loss(stream, seed):
    calm, wild = (
        summarise(stream(300, seed, pace_ns=20_000, jitter_ns=each, loss_forward=0.05)) for each in (0, 500_000)
    )
    assert wild.reordered_forward > 0 == calm.reordered_forward
    assert wild.loss == calm.loss
    assert wild.loss_events == calm.loss_events


def test_reordering_on_the_way_there_is_not_charged_to_the_way_back(stream):
    made = stream(2000, 11, pace_ns=50_000, jitter_ns=200_000)
    made["received_ns"] = made["far_sent_ns"] + 5_000_000
    made["arrival"] = made["far_seq"]
    found = summarise(made)
    assert found.reordered_forward > 100
    assert found.reordered_reverse == 0


def test_reordering_in_batches_is_reordering_in_one_go(stream, monkeypatch):
    monkeypatch.setattr(arrivals, "HOLD", 64)
    monkeypatch.setattr(arrivals, "BATCH", 128)
    made = stream(5000, 24, pace_ns=50_000, jitter_ns=100_000)
    order = np.argsort(made["arrival"])
    for chunk in (50, 64, 1000):
        found = arrivals.Arrivals()
        for part in np.split(made, range(chunk, 5000, chunk)):
            found.add(part["far_seq"], part["arrival"], part["received_ns"])
            found.closed()
        assert found.closed().reordered == reordered(made["far_seq"][order]).sum() > 500
        assert found.closed().count == 5000


def test_one_straggler_is_one_reordered_packet_wherever_the_stream_is_cut(stream):
    made = stream(100, 12, jitter_ns=0)
    order = np.r_[0:50, 51:61, 50, 61:100]  # packet 50 arrives ten late
    made["far_seq"] = made["arrival"] = np.argsort(order)
    for cut in (50, 51, 55, 60, 61):
        merged = merge(*(summarise(part) for part in np.split(made, [cut])))
        assert (merged.reordered_forward, merged.reordered_reverse) == (1, 0)


# ---- bounds of size


def test_a_long_run_keeps_to_its_slices_events_and_edges(stream):
    made = stream(26_000, 13, pace_ns=10_000_000, loss_forward=0.08)
    found = summarise(made)
    assert found.slice_ns == 800_000_000  # 260 s make 650 slices of 400 ms
    assert 325 <= len(found.slices) <= 326
    assert sum(piece.sent for piece in found.slices) == found.sent
    assert sum(piece.lost_forward for piece in found.slices) == found.lost_forward
    assert min(piece.rtt_min_ns for piece in found.slices) == found.round_trip_delay.minimum
    assert len(found.loss_events) == 1000
    assert found.loss_events[0].first_seq == np.flatnonzero(made["fate"] != Fate.RECEIVED)[0]
    assert all(isinstance(edge, Edge) and len(edge.head) <= 32 for edge in found.edges.values())


def test_slice_quantiles_are_close_enough_to_draw(stream):
    made = stream(10_000, 14, jitter_ns=400_000)
    found = summarise(made)
    for piece in found.slices[:20]:
        rows = made[(made["sent_ns"] >= piece.start_ns) & (made["sent_ns"] < piece.start_ns + found.slice_ns)]
        rtt = rows["received_ns"] - rows["sent_ns"] - (rows["far_sent_ns"] - rows["far_received_ns"])
        spread = rtt.max() - rtt.min()
        assert (piece.rtt_min_ns, piece.rtt_max_ns) == (rtt.min(), rtt.max())
        assert abs(piece.rtt_p50_ns - np.sort(rtt)[(rtt.size + 1) // 2 - 1]) <= spread / 100
        there = made["far_received_ns"] - made["sent_ns"]
        own = np.sort(rows["far_received_ns"] - rows["sent_ns"])
        exact = own[histogram.quantile_rank(own.size, 0.99) - 1] - there.min()
        assert abs(piece.forward_pdv_p99_ns - exact) <= spread / 100


def test_a_clock_set_back_leaves_the_slices_in_order(stream):
    made = stream(1000, 15)
    for name in ("sent_ns", "received_ns", "far_received_ns", "far_sent_ns"):
        made[name][500:] -= 300_000_000
    found = summarise(made)
    starts = [piece.start_ns for piece in found.slices]
    assert starts == sorted(starts)
    assert sum(piece.sent for piece in found.slices) == 1000


# ---- loss events


def test_loss_events_by_run_and_by_cluster(stream):
    made = stream(100, 16, jitter_ns=0)
    made["fate"][[10, 11, 12, 15, 40]] = Fate.LOST_FORWARD
    made["fate"][[41, 60]] = Fate.LOST_REVERSE
    runs, clusters = summarise(made).loss_events, summarise(made, gap=3).loss_events
    assert [(str(e.direction), e.first_seq, e.packets) for e in runs] == [
        ("forward", 10, 3),
        ("forward", 15, 1),
        ("forward", 40, 1),
        ("reverse", 41, 1),
        ("reverse", 60, 1),
    ]
    assert next((e.first_seq, e.last_seq, e.packets) for e in clusters) == (10, 15, 4)
    assert runs[0].start_ns == made["sent_ns"][10]
    assert runs[0].duration_ns == made["sent_ns"][12] - made["sent_ns"][10]


@pytest.mark.parametrize("gap", [1, 4])
@pytest.mark.parametrize("cut", [9, 10, 12, 13, 14, 16, 30])
def test_a_loss_event_across_the_cut_is_one(stream, cut, gap):
    made = stream(60, 16, jitter_ns=0)
    made["fate"][[10, 11, 12, 13, 16, 40]] = Fate.LOST_FORWARD
    made["fate"][[14, 15]] = Fate.LOST
    whole = summarise(made, gap=gap)
    assert_same(merge(*(summarise(part, gap=gap) for part in np.split(made, [cut]))), whole)
    assert len(whole.loss_events) == (4 if gap == 1 else 3)


def test_pdv_of_merged_slices_counts_from_the_smallest_delay_of_both(stream):
    made = stream(2000, 23, offset_ns=10**9)
    made["far_received_ns"][:1000] += 3_000_000  # the line is slower at first
    made["far_sent_ns"][:1000] += 3_000_000
    made["received_ns"][:1000] += 3_000_000
    whole = summarise(made)
    cut = int(np.searchsorted(made["sent_ns"], whole.slices[10].start_ns))
    merged = merge(*(summarise(part) for part in np.split(made, [cut])))
    assert merged.slices == whole.slices
    assert merged.slices[0].forward_pdv_p99_ns > 3_000_000 > merged.slices[-1].forward_pdv_p99_ns


# ---- asking a summary


def test_proportions_from_the_tally_and_from_the_histogram_agree(stream):
    made = stream(20_000, 17, loss_reverse=0.01)
    asked = Objective("round_trip_delay", "p99", RT, 10_500_000)
    counted = Summarizer([asked])
    blind = Summarizer()
    for each in (counted, blind):
        each.add(made)
    exact, binned = (query.proportion(each.summary(), asked) for each in (counted, blind))
    assert exact[1] == binned[1] == 20_000
    assert exact[0] == pytest.approx(binned[0], rel=0.05)
    assert exact[0] > counted.summary().lost_reverse


def test_proportions_of_every_kind(stream):
    found = summarise(stream(5000, 18, pace_ns=100_000, **FAULTS))
    ask = query.proportion
    assert ask(found, Objective("loss_ratio", "ratio", F, 1e-5)) == (found.lost_forward + found.lost, found.sent)
    reached = found.received + found.lost_reverse
    assert ask(found, Objective("reordered_ratio", "ratio", F, 0.01)) == (found.reordered_forward, reached)
    assert ask(found, Objective("duplicate_ratio", "ratio", R, 0.01)) == (found.duplicates_reverse, found.received)
    assert ask(found, Objective("round_trip_delay", "max", RT, 5)) is None
    assert ask(Summary(), Objective("loss_ratio", "ratio", F, 1e-5)) is None
    assert ask(Summary(), Objective("pdv", "p99", F, 5)) is None
    dead = summarise(stream(10, loss_forward=1.0))
    assert ask(dead, Objective("pdv", "p99.99", F, 5.0)) == (10, 10)


def test_distributions_of_every_delay(stream):
    found = summarise(stream(500, 19, offset_ns=10**12))
    assert query.distribution(found, "round_trip_delay", RT) == found.round_trip_delay
    assert query.distribution(found, "one_way_delay", R) == found.reverse_delay
    assert query.distribution(found, "ipdv", F) == found.ipdv[F]
    assert query.distribution(found, "pdv", RT).minimum == 0
    assert query.distribution(found, "throughput", F) is None
    assert query.distribution(Summary(), "pdv", F) is None


def test_a_far_end_without_numbers_of_its_own_charges_reordering_to_the_way_back(stream):
    made = stream(500, 20, pace_ns=50_000, jitter_ns=200_000)
    made["far_seq"] = ABSENT
    found = summarise(made)
    assert found.reordered_forward == 0
    assert found.reordered_reverse > 10


def test_expected_stamps_can_be_named(stream):
    made = stream(300, 21, user_t3=0.1)
    made["stamps"] &= int(Stamp.T1_KERNEL | Stamp.T3_KERNEL | Stamp.T4_KERNEL)  # the far end never had a kernel T2
    assert summarise(made).unstamped == 0
    strict = summarise(made, expected=Stamp.T1_KERNEL | Stamp.T3_KERNEL | Stamp.T4_KERNEL)
    assert strict.unstamped == 300 - strict.round_trip_delay.n > 10
    assert strict.received == 300


def test_a30_quantiles_of_an_inference_line(stream):
    made = stream(100_000, 22, base_ns=1_900_000, jitter_ns=0)
    rng = np.random.default_rng(1)
    there = 4_100_000 * np.ones(100_000, np.int64) + rng.integers(-100_000, 100_000, 100_000)
    there[rng.choice(100_000, 1000 + 50, replace=False)] = 4_800_000
    there[rng.choice(100_000, 150, replace=False)] = 22_000_000
    made["received_ns"] = made["sent_ns"] + there + (made["far_sent_ns"] - made["far_received_ns"])
    found = summarise(made).round_trip_delay
    assert [round(quantile(found, q) / 1e6, 1) for q in (0.5, 0.99, 0.999)] == [4.1, 4.8, 22.0]
