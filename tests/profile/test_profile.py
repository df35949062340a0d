"""Profiles that are right: what they come to, and what a careful reader remarks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkqual.profiles as shipped
from linkqual.errors import InputError, UsageError
from linkqual.metrics import METRICS
from linkqual.model import Direction, Objective, Profile, Relation
from linkqual.profile import parse
from linkqual.profile.lint import compare
from linkqual.profile.probe_settings import SETTINGS
from linkqual.session.pacer import SCHEDULES

LOSS = "- {metric: loss_ratio, direction: both, limit: 1e-5, source: contract}\n"
JITTER = "- {metric: pdv, statistic: p99.9, direction: both, limit: 3 ms, source: contract}\n"


def profile(objectives: str = LOSS + JITTER, rest: str = "") -> Profile:
    return parse(f"name: test\nobjectives:\n{objectives}{rest}", "test.yaml")


def only(line: str) -> Objective:
    (objective,) = profile(f"- {line}\n").objectives
    return objective


@pytest.mark.parametrize("name", shipped.names())
def test_shipped_profiles_are_sound(name: str) -> None:
    read = parse(shipped.text(name), f"{name}.yaml")
    assert read.name == name
    assert read.title
    assert read.purpose
    assert read.notes == ()
    assert all(len(objective.source) > 20 for objective in read.objectives)
    if name in ("training", "inference"):
        assert set(read.probes) >= {"path", "marking", "ping", "stamp", "throughput"}


def test_training_and_inference_are_two_yardsticks() -> None:
    training, inference = (parse(shipped.text(name), name) for name in ("training", "inference"))
    assert compare(training, inference) == ""
    loss = {
        read.name: read.objectives[[one.metric for one in read.objectives].index("loss_ratio")]
        for read in (training, inference)
    }
    assert loss["training"].limit == 1e-5
    assert loss["training"].assumed_burst == 1
    assert loss["inference"].limit == 1e-4


def test_unknown_shipped_profile_names_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        shipped.text("trainign")
    assert "inference, path, training" in caught.value.hint


def test_one_entry_may_judge_both_directions() -> None:
    assert [one.key for one in profile(LOSS).objectives] == ["loss_ratio/forward/ratio", "loss_ratio/reverse/ratio"]
    listed = profile("- {metric: loss_ratio, direction: [reverse, forward], limit: 1e-5, source: c}\n")
    assert [one.direction for one in listed.objectives] == [Direction.REVERSE, Direction.FORWARD]


def test_defaults_of_an_objective() -> None:
    objective = only("{metric: round_trip_delay, statistic: p99, limit: 12 ms, source: contract}")
    assert objective == Objective(
        "round_trip_delay", "p99", Direction.ROUND_TRIP, 12_000_000, Relation.AT_MOST, 0.95, True, "contract", "12 ms"
    )


@pytest.mark.parametrize(("written", "read"), [("p99.9", "p99.9"), ("p99.90", "p99.9"), ("p5", "p5"), ("p50.0", "p50")])
def test_quantiles(written: str, read: str) -> None:
    assert only(f"{{metric: pdv, statistic: {written}, direction: forward, limit: 3 ms, source: c}}").statistic == read


@pytest.mark.parametrize(
    ("metric", "written", "limit"),
    [
        ("metric: loss_ratio, direction: forward", "1e-5", 1e-5),
        ("metric: loss_ratio, direction: forward", "1E-5", 1e-5),
        ("metric: loss_ratio, direction: forward", "'1e-5'", 1e-5),
        ("metric: loss_ratio, direction: forward", "0.001 %", 1e-5),
        ("metric: loss_ratio, direction: forward", "10 ppm", 1e-5),
        ("metric: pdv, statistic: p99, direction: forward", "250 us", 250_000),
        ("metric: pdv, statistic: p99, direction: forward", "1.5ms", 1_500_000),
        ("metric: throughput, statistic: p10, direction: forward", "10 Gbit/s", 10**10),
        ("metric: throughput, statistic: p10, direction: forward", "9.4G", 9_400_000_000),
        ("metric: throughput, statistic: p10, direction: forward", "1.25 GB/s", 10**10),
    ],
)
def test_values_mean_what_they_say(metric: str, written: str, limit: float) -> None:
    assert only(f"{{{metric}, limit: {written}, source: c}}").limit == limit


def test_words_of_yaml_1_1_are_text() -> None:
    assert parse("name: off\ntitle: yes\nobjectives:\n" + LOSS + JITTER, "x").title == "yes"
    assert parse("name: 1_000\nobjectives:\n" + LOSS + JITTER, "x").name == "1_000"


def test_settings_of_the_probes_carry_their_units() -> None:
    rest = (
        "probes:\n  stamp: {rate: 20 kpps, timeout: 1.5 s, packets: 2_000_000, dscp: ef, window: 256, max_burst: 80}\n"
    )
    stamp = profile(rest=rest).probes["stamp"]
    assert stamp["rate_pps"] == 20_000
    assert stamp["timeout_ns"] == 1_500_000_000
    assert stamp["packets"] == 2_000_000
    assert stamp["dscp"] == 46
    assert stamp["window"] == 256
    assert stamp["max_burst"] == 80
    assert stamp["packet_bytes"] == 64  # not written: the default


def test_without_probes_those_needed_run_with_their_defaults() -> None:
    assert list(profile().probes) == ["stamp"]
    assert list(profile("- {metric: throughput, statistic: p10, direction: both, limit: none}\n").probes) == [
        "throughput"
    ]


def test_a_probe_without_settings_is_named_alone() -> None:
    assert profile(rest="probes:\n  stamp:\n  ping: {}\n").probes["ping"]["count"] == 20


def test_one_number_of_streams_stands_for_a_list() -> None:
    throughput = "- {metric: throughput, statistic: p10, direction: both, limit: none}\n"
    assert profile(throughput, "probes: {throughput: {streams: 8}}").probes["throughput"]["streams"] == [8]
    assert profile(throughput, "probes: {throughput: {streams: [16, 1]}}").probes["throughput"]["streams"] == [1, 16]


def test_schedules_are_those_of_the_engine() -> None:
    (schedule,) = (one for one in SETTINGS["stamp"] if one.key == "schedule")
    assert [schedule.read(name) for name in SCHEDULES] == list(SCHEDULES)


@pytest.mark.parametrize(
    ("objectives", "remark"),
    [
        (LOSS, "no delay or jitter is measured"),
        (LOSS + "- {metric: round_trip_delay, statistic: p50, limit: 12 ms, source: c}\n", "no tail metric"),
        (LOSS + "- {metric: round_trip_delay, statistic: p99, limit: none}\n", "no tail metric"),
        (
            LOSS + JITTER + "- {metric: throughput, statistic: p10, direction: forward, limit: 1G, source: c}\n",
            "forward only",
        ),
        (LOSS + "- {metric: pdv, statistic: max, direction: both, limit: 9 ms, source: c}\n", "proves nothing"),
        (
            "- {metric: pdv, statistic: p99, direction: both, limit: 9 ms, required: false, source: c}\n",
            "no line can fail",
        ),
    ],
)
def test_remarks(objectives: str, remark: str) -> None:
    assert any(remark in note for note in profile(objectives).notes)


def test_a_sound_profile_gets_no_remark() -> None:
    assert profile().notes == ()


def test_one_yardstick_for_two_purposes_is_remarked() -> None:
    text = "objectives:\n" + LOSS + JITTER
    mine, yours = (parse(f"name: {name}\n{text}", name) for name in ("training", "inference"))
    assert compare(mine, yours).startswith("training and inference ask the same of a line")
    assert compare(mine, mine) == ""


def said(text: str) -> str:
    try:
        parse(text, "x.yaml")
    except InputError as error:
        return str(error)
    return ""


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=200))
def test_any_text_is_a_profile_or_an_input_error(text: str) -> None:
    assert said(text).startswith("x.yaml:") or parse(text, "x.yaml").objectives


FRAGMENTS = ["name: x\n", "objectives:\n", "- ", "{", "}", "[", "]", "metric: loss_ratio", ", ", "limit: 1e-5", "direction: both",
             "source: c", "\n", "  ", "probes:", " stamp:", "rate: 1", "&a ", "*a", "|", ">", "'", '"', "#", "? ", ": ", "---\n", "!t "]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
def test_any_pieces_of_profiles_are_a_profile_or_an_input_error(text: str) -> None:
    assert said(text).startswith("x.yaml:") or parse(text, "x.yaml").objectives


def test_every_metric_can_be_asked_for() -> None:
    for metric in METRICS.values():
        statistic = metric.statistics[0]
        text = f"- {{metric: {metric.name}, statistic: {statistic}, direction: {metric.directions[0]}, limit: none}}\n"
        assert profile(text).objectives[0].metric == metric.name
