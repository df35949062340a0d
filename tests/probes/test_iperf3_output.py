"""Documents of every kind of damage: each has its name, none becomes a zero."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.model import Fault
from linkqual.probes.iperf3_output import KNOWN_WRONG, Report, fault_of, known_wrong, read


def stream(start: float, seconds: float, bps: float, sender: bool = False, **more: Any) -> dict[str, Any]:
    known = {"socket": 5, "start": start, "end": start + seconds, "seconds": seconds}
    known |= {"bytes": int(bps * seconds / 8), "bits_per_second": bps, "omitted": False, "sender": sender}
    return known | more


def second(start: float, *rates: float, seconds: float = 1.0, sender: bool = False, **more: Any) -> dict[str, Any]:
    streams = [stream(start, seconds, rate, sender, **more) for rate in rates]
    return {"streams": streams, "sum": stream(start, seconds, sum(rates), sender)}


def document(*seconds: dict[str, Any], **more: Any) -> dict[str, Any]:
    whole = {
        "start": {
            "connected": [{"local_host": "a", "local_port": 1, "remote_host": "b", "remote_port": 2}],
            "version": "iperf 3.12",
            "system_info": "Linux",
            "timestamp": {"time": "now", "timesecs": 1},
            "tcp_mss_default": 1448,
            "test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 1, "omit": 0, "duration": len(seconds)},
        },
        "intervals": list(seconds),
        "end": {
            "sum_sent": {"bytes": 1000, "bits_per_second": 8.0, "retransmits": 3},
            "sum_received": {"bytes": 900, "bits_per_second": 7.2},
            "cpu_utilization_percent": {
                "host_total": 50.0, "host_user": 1, "host_system": 49,
                "remote_total": 25.0, "remote_user": 1, "remote_system": 24,
            },
            "sender_tcp_congestion": "cubic",
        },
    }  # fmt: skip
    return whole | more


GOOD = document(second(0, 1e9, 2e9), second(1.0001, 1e9, 2.5e9), second(2.0, 5e8, 5e8), second(3.0, 1e9, seconds=0.04))


def kind(text: str) -> str:
    found = read(text)
    assert isinstance(found, Fault), found
    assert found.message
    return found.kind


def report(found: dict[str, Any]) -> Report:
    got = read(json.dumps(found))
    assert isinstance(got, Report), got
    return got


def test_seconds_are_summed_over_streams_and_the_rest_is_dropped() -> None:
    found = report(GOOD)
    assert found.seconds(0) == ((), (3e9, 3.5e9, 1e9))
    assert found.seconds(1) == ((3e9,), (3.5e9, 1e9))
    assert found.seconds(9) == ((3e9, 3.5e9, 1e9), ())
    assert (found.sent_bytes, found.received_bytes, found.retransmits) == (1000, 900, 3)
    assert (found.version, found.mss, found.cpu_here, found.cpu_there) == ("3.12", 1448, 0.5, 0.25)
    assert not found.sending


def test_a_silent_second_is_a_measured_zero() -> None:
    assert report(document(second(0, 1e9), second(1, 0.0), second(2, 1e9))).seconds(0)[1] == (1e9, 0.0, 1e9)


def test_omitted_seconds_are_warm_up() -> None:
    assert report(document(second(0, 1e9, omitted=True), second(0.0001, 2e9))).intervals[0].omitted


def test_an_interval_told_twice_counts_once() -> None:
    assert report(document(second(0, 1e9), second(1, 2e9), second(1, 2e9))).seconds(0)[1] == (1e9, 2e9)


def test_round_trips_come_from_the_sender_and_sane_values_only() -> None:
    found = report(
        document(
            second(0, 1.0, sender=True, rtt=100),
            second(1, 1.0, sender=True, rtt=300),
            second(2, 1.0, sender=True, rtt=-5),
            second(3, 1.0, sender=True, rtt=0),
        )
    )
    assert (found.sending, found.rtt_min_ns, found.rtt_mean_ns) == (True, 100_000, 200_000)
    assert report(GOOD).rtt_min_ns is None


@pytest.mark.parametrize("unknown", [-1, 2**32 - 1, 2**64 - 2, None, "7", True])
def test_a_counter_that_wrapped_is_unknown(unknown: Any) -> None:
    odd = copy.deepcopy(GOOD)
    odd["end"]["sum_sent"]["retransmits"] = unknown
    assert report(odd).retransmits is None


def test_a_document_without_totals_still_has_its_seconds() -> None:
    for end in ({}, {"sum_sent": {"bytes": 1}}, None):
        found = report(document(second(0, 1e9), end=end))
        assert found.seconds(0)[1] == (1e9,)
        assert (found.received_bytes, found.retransmits) == (None, None)


def test_an_error_keeps_the_seconds_before_it() -> None:
    found = report(document(second(0, 1e9), end={}, error="interrupt - the client has terminated"))
    assert found.seconds(0)[1] == (1e9,)
    assert fault_of(found.error).kind == "interrupted"


TEXT = json.dumps(GOOD, indent="\t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "iperf3-empty"),
        (" \n\t", "iperf3-empty"),
        ("iperf3: error - unable to connect", "iperf3-not-json"),
        ("[  5]   0.00-1.00   sec  1.10 GBytes  9.41 Gbits/sec", "iperf3-not-json"),
        ("[1, 2]", "iperf3-not-json"),
        ("warning: something\n" + TEXT, "iperf3-not-json"),
        (TEXT + "\niperf3: interrupted", "iperf3-not-json"),
        ('{"a": tru}', "iperf3-not-json"),
        (TEXT[:200], "iperf3-cut"),
        (TEXT[: len(TEXT) // 2], "iperf3-cut"),
        (TEXT[:-2], "iperf3-cut"),
        ('{"start": {"version": "iperf 3.', "iperf3-cut"),
        (TEXT + "\n" + TEXT.replace("3.12", "3.13"), "iperf3-several"),
        (TEXT + TEXT[:50], "iperf3-several"),
        (TEXT.replace("1000000000.0", "nan", 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", "-nan", 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", "NaN", 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", "inf", 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", "-Infinity", 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", "null", 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", "-1000000000.0", 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", '"fast"', 1), "iperf3-nonsense"),
        (TEXT.replace("1000000000.0", "1e999", 1), "iperf3-nonsense"),
        (json.dumps(document()), "iperf3-no-result"),
        ("{}", "iperf3-no-result"),
        ('{"start": null, "intervals": null, "end": null}', "iperf3-no-result"),
        ('{"intervals": [{"streams": []}]}', "iperf3-no-result"),
        ('{"intervals": [{}]}', "iperf3-nonsense"),
        ('{"intervals": 7}', "iperf3-nonsense"),
        ('{"intervals": [], "error": "unable to connect to server: Connection refused"}', "unreachable"),
        ('{"intervals": [{}], "error": "the server is busy running a test. try again later"}', "busy"),
    ],
)
def test_damage_has_a_name(text: str, expected: str) -> None:
    assert kind(text) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("the server is busy running a test. try again later", "busy"),
        ("unable to connect to server: Connection refused", "unreachable"),
        ("unable to connect to server: Connection timed out", "unreachable"),
        ("unable to connect to server: No route to host", "unreachable"),
        ("control socket has closed unexpectedly", "peer-lost"),
        ("the server has terminated", "peer-lost"),
        ("unable to send control message: Connection reset by peer", "peer-lost"),
        ("unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported on this host", "no-capability"),
        ("interrupt - the client has terminated", "interrupted"),
        ("something never heard of", "iperf3-error"),
    ],
)  # fmt: skip
def test_errors_have_kinds(error: str, expected: str) -> None:
    found = fault_of(error)
    assert found.kind == expected
    assert error in found.message


@given(st.integers(0, len(TEXT) - 2))
@settings(max_examples=60, deadline=None)
def test_cut_anywhere_it_is_never_a_result(end: int) -> None:
    assert kind(TEXT[:end]) in ("iperf3-cut", "iperf3-empty")


@given(st.integers(0, len(TEXT) - 1), st.characters(min_codepoint=32, max_codepoint=126))
@settings(max_examples=100, deadline=None)
def test_one_wrong_character_never_raises(at: int, wrong: str) -> None:
    found = read(TEXT[:at] + wrong + TEXT[at + 1 :])
    if isinstance(found, Report):
        assert all(rate >= 0 for rate in found.seconds(0)[1])


def test_a_document_written_twice_counts_once() -> None:
    assert read(TEXT + "\n" + TEXT) == read(TEXT)


def test_what_the_kernel_told_the_sender_is_kept_for_each_second() -> None:
    told = {"rtt": 30_000, "retransmits": 2, "snd_cwnd": 90_000, "snd_wnd": 3_000_000}
    first = second(0, 1e9, 3e9, sender=True, **told)
    first["streams"][1] |= {"rtt": 50_000, "snd_cwnd": 120_000}
    found = report(document(first, second(1, 1e9, 3e9), second(2, 1e9, 3e9, **told | {"retransmits": -1})))
    (start, middle, last) = found.measured(0)
    assert (start.rtt_ns, start.retransmits, start.window_bytes) == (40_000_000, 4, 120_000)
    assert start.receive_window_bytes == 3_000_000
    assert start.flows == (125_000_000, 375_000_000)
    assert (middle.rtt_ns, middle.retransmits, middle.window_bytes) == (0, None, 0)  # a receiver's
    assert last.retransmits is None  # a counter that wrapped
    assert found.measured(1.0) == (middle, last)


def test_every_fault_of_a_version_names_where_it_is_told() -> None:
    assert all("#" in what or "SECADV" in what for _, _, what in KNOWN_WRONG)
    assert all(since < until for since, until, _ in KNOWN_WRONG)


def test_versions_with_known_faults() -> None:
    assert any("--omit" in note for note in known_wrong("3.12"))
    assert not any("RTT" in note for note in known_wrong("3.12"))
    assert any("RTT" in note for note in known_wrong("3.7"))
    assert any("get-server-output" in note for note in known_wrong("3.17.1"))
    assert known_wrong("3.19") == ()
    assert known_wrong("") == ()
