"""Documents with as little in them as the model allows: every report must still stand, and say what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkqual import model as m
from linkqual.reports import FORMATS, html, render, terminal

from .measured import PATH, PING, REVERSE, STAMP, throughput_step
from .samples import SAMPLES
from .traffic import SECOND, summary, traffic

NOWHERE = m.Trace("", "", 0, 0, fault=m.Fault("no-capability", "raw sockets are not allowed", "run as root"))
ONE = summary(traffic(1, 1, 10, start_ns=0), slices=1)
BARE: dict[str, m.Measurement] = {
    "stamp without a packet": m.Measurement(STAMP, 0, 0, stamp=m.StampResult(m.Summary(), 0.0, 0, 0)),
    "stamp with one packet": m.Measurement(STAMP, 0, 1, stamp=m.StampResult(ONE, 10.0, 64, SECOND)),
    "all lost": m.Measurement(
        STAMP,
        0,
        SECOND,
        stamp=m.StampResult(
            m.Summary(
                sent=9,
                lost=9,
                first_sent_ns=0,
                last_sent_ns=SECOND,
                loss_events=(m.LossEvent(None, 0, SECOND, 0, 9),),
                slices=(m.Slice(0, 9, 0, 0, 9),),
                slice_ns=SECOND,
            ),
            9.0,
            64,
            SECOND,
        ),
    ),
    "ping without an answer": m.Measurement(PING, 0, 0, ping=m.PingResult(5, 0, errors=5)),
    "throughput without a second": m.Measurement(
        throughput_step(REVERSE, 1), 0, 0, throughput=m.ThroughputResult(1, ())
    ),
    "throughput of nothing": m.Measurement(
        throughput_step(REVERSE, 1), 0, 0, throughput=m.ThroughputResult(1, (0.0, 0.0), cpu_near=0.99)
    ),
    "path without a hop": m.Measurement(PATH, 0, 0, path=m.PathResult(NOWHERE, NOWHERE)),
    "nothing at all": m.Measurement(PATH, 0, 0),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", BARE)
def test_a_bare_measurement_is_drawn(name: str, form: str) -> None:
    q = replace(SAMPLES["few"](), measurements=(BARE[name],))
    assert "10.20.0.7" in render(q, form)


def test_what_a_bare_measurement_lacks_is_said() -> None:
    def page(name: str) -> str:
        return " ".join(html.render(replace(SAMPLES["few"](), measurements=(BARE[name],))).split())

    assert "not measured: no packet with both stamps" in page("stamp without a packet")
    assert "9 were lost in an unknown direction." in page("all lost")
    assert "5 error replies." in page("ping without an answer")
    assert "no whole second after the warm-up" in page("throughput without a second")
    assert "iperf3 used 99 % of one core at the near end;" in page("throughput of nothing")
    assert "raw sockets are not allowed (run as root)" in page("path without a hop")
    assert "the step gave no result" in page("nothing at all")


def test_a_document_without_anything_is_drawn() -> None:
    q = SAMPLES["clean"]()
    empty = replace(
        q,
        measurements=(),
        verdict=m.Verdict(m.Outcome.NO_DATA, ()),
        plan=m.Plan("training", (), (), m.Link()),
        profile=m.Profile("", "", "", (), {}),
        started_ns=0,
        ended_ns=0,
        peer="",
        zone="",
    )
    assert "NO DATA" in html.render(empty)
    assert "1970-01-01 00:00:00 UTC" in terminal.render(empty)
    assert "nothing of profile" in terminal.render(empty)


def test_a_run_of_weeks_is_drawn_small() -> None:
    day = 86_400 * SECOND
    slices = tuple(
        m.Slice(i * day // 24, 100, 0, 0, 0, 10**6, 10**6, 2 * 10**6, 3 * 10**6, 5, 5) for i in range(24 * 30)
    )
    result = m.StampResult(m.Summary(sent=72_000, slices=slices, slice_ns=day // 24), 1.0, 64, SECOND)
    q = replace(SAMPLES["few"](), measurements=(m.Measurement(STAMP, 0, 30 * day, stamp=result),), ended_ns=30 * day)
    text = html.render(q)
    assert "d since start" in text
    assert len(text) < 200_000
