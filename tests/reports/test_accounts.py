"""Where the lost packets went, and how the sender kept its schedule, as the reports say it."""

from __future__ import annotations

from dataclasses import replace

from linkqual import model as m
from linkqual.reports import accounts, html, terminal

from .samples import SAMPLES


def changed(name: str, **state: object) -> m.Qualification:
    """A sample whose stream was taken under these conditions."""
    q = SAMPLES[name]()
    measured = tuple(
        replace(one, conditions=replace(one.conditions, **state)) if one.stamp else one  # type: ignore[arg-type]
        for one in q.measurements
    )
    return replace(q, measurements=measured)


def stamp_of(q: m.Qualification) -> m.StampResult:
    return next(one.stamp for one in q.measurements if one.stamp)


def test_nothing_lost_is_no_table() -> None:
    q = SAMPLES["clean"]()
    assert accounts.accounts(q) == []
    assert accounts.TITLE not in terminal.render(q, 100)
    assert "Where the lost packets went" not in html.render(q)


def test_the_rows_are_all_the_lost_packets() -> None:
    far = m.EndConditions(drops={"socket_drops": 2, "UdpRcvbufErrors": 2, "UdpInCsumErrors": 0})
    q = changed("lossy", far=far)
    summary = stamp_of(q).summary
    rows = accounts.accounts(q)
    assert sum(row.packets for row in rows) == summary.sent - summary.received
    assert [row.address for row in rows] == ["line, reverse", "far host", "line, forward"]
    assert [row.packets for row in rows] == [summary.lost_reverse, 2, summary.lost_forward - 2]
    for view in (" ".join(terminal.render(q, 100).split()), html.render(q)):
        assert "here the lost packets went" in view
        for row in rows:
            assert row.address in view
            assert f"{row.packets:,}" in view
    assert "2 far host dropped by the far end's receive socket" in " ".join(terminal.render(q, 100).split())


def test_when_a_host_dropped_stands_beside_its_counter() -> None:
    times = ((1_796_023_080 * 10**9, "UdpRcvbufErrors", 5), (1_796_023_085 * 10**9, "UdpRcvbufErrors", 2))
    far = m.EndConditions(drops={"UdpRcvbufErrors": 7, "softnet_dropped": 1}, drop_times=times)
    page = html.render(changed("lossy", far=far))
    assert "07:18:00 to 07:18:05" in page


def test_pacing_in_few_words_and_in_many() -> None:
    stamp = stamp_of(SAMPLES["clean"]())
    assert accounts.short_pacing(stamp) == "p99 8.587 µs late, longest burst 9 packets (45 µs)"
    assert accounts.pacing_words(stamp).startswith("half of the packets left within 3.196 µs of their instant")
    assert "longest burst 9 packets (45 µs)" in accounts.pacing_words(stamp)
    assert "pacing: p99 8.587 µs late" in terminal.render(SAMPLES["clean"](), 100)
    single = replace(stamp.summary.pacing, longest=m.Burst(1))
    assert accounts.burst_words(single) == "1 packet"
    unscheduled = replace(stamp, summary=replace(stamp.summary, pacing=m.Pacing()))
    assert accounts.short_pacing(unscheduled) == accounts.pacing_words(unscheduled) == ""
    older = replace(unscheduled, lateness=stamp.summary.pacing.late)  # a document from before the audit
    assert accounts.short_pacing(older) == "p99 8.587 µs late"
