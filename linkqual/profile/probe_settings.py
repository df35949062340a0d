"""What each probe may be told in a profile: the key, how it is read, its default. Names in the result carry their unit. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from linkqual.errors import InputError
from linkqual.model import Json
from linkqual.session.bursts import PATTERNS
from linkqual.session.load_phase import MOST_FLOWS
from linkqual.session.pacer import SCHEDULES
from linkqual.settings import Mapping, Section, boolean, choice, real, whole
from linkqual.stats.collectives import DTYPE_BYTES
from linkqual.units import NS_PER_S, format_ratio, parse_duration_ns, parse_packet_rate, parse_ratio, parse_size_bytes
from linkqual.wire.codepoints import parse_dscp, parse_ecn
from linkqual.wire.stamp import Mode

STAMP_BYTES = 64  # 44 of RFC 8762 and 20 of the Follow-Up Telemetry TLV (RFC 8972 section 4.7)
SIGNED_BYTES = Mode.AUTHENTICATED.follow_up_bytes  # the same in authenticated mode
MAX_PAYLOAD = 65_507


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of one probe. `name`: the key with its unit, as the probe's step gets it."""

    key: str
    name: str
    read: Callable[[str], Json]
    default: Json
    several: bool = False  # a list, or one value standing for a list of one
    weighed: bool = False  # one value, or a mapping of values to weights: the largest by `name`, all of them as `mix`


def _between(read: Callable[[object], int], low: str, high: str) -> Callable[[str], int]:
    least, most = read(low), read(high)

    def checked(value: str) -> int:
        found = read(value)
        if not least <= found <= most:
            raise InputError(f"{value!r} is out of range", f"{low} to {high}")
        return found

    return checked


def _seconds(low: str, high: str) -> Callable[[str], int]:
    within = _between(parse_duration_ns, low, high)

    def read(value: str) -> int:
        found = within(value)
        if found % NS_PER_S:
            raise InputError(f"{value!r} is no whole number of seconds", f"{low} to {high} in whole seconds")
        return found // NS_PER_S

    return read


def _or_auto(what: str) -> Callable[[str], int]:
    """A number of packets; "auto" is 0."""

    def read(value: str) -> int:
        if value == "auto":
            return 0
        try:
            return whole(1, 1_000_000)(value)
        except InputError as error:
            raise InputError(error.message, f"auto, or {error.hint} {what}") from None

    return read


PERFORMANCE = {
    "section": 15 * 60,
    "network": 2 * 3600,
    "carriers": 24 * 3600,
}  # seconds: within one section, one network, across several
FRAME_SIZES = (64, 128, 256, 512, 1024, 1280, 1518)  # RFC 2544 section 9.1, Ethernet with FCS


def _or_word(words: dict[str, int], read: Callable[[str], int]) -> Callable[[str], int]:
    """A value, or one of the words that stand for one."""

    def checked(value: str) -> int:
        if value in words:
            return words[value]
        try:
            return read(value)
        except InputError as error:
            raise InputError(error.message, f"{', '.join(words)}, or {error.hint}") from None

    return checked


def _ratio(low: float, high: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        found = parse_ratio(value)
        if not low <= found <= high:
            raise InputError(f"{value!r} is out of range", f"{format_ratio(low)} to {format_ratio(high)}")
        return found

    return read


_parameters = real(1e3, 1e15, "number of a model's parameters", "1e3 to 1e15, such as 7e9")
read_stamp_rate = _between(parse_packet_rate, "1 pps", "1 Mpps")

SETTINGS: dict[str, tuple[Setting, ...]] = {
    "path": (
        Setting("max_hops", "max_hops", whole(1, 64), 30),
        Setting("rounds", "rounds", whole(1, 20), 3),
        Setting("timeout", "timeout_ns", _between(parse_duration_ns, "50 ms", "10 s"), NS_PER_S),
        Setting("flows", "flows", _or_word({"auto": 0}, whole(1, 64)), 0),
    ),
    "members": (
        Setting("flows", "flows", whole(4, MOST_FLOWS), 64),
        Setting("packets", "packets", whole(10, 1_000_000), 2500),
        Setting("traces", "traces", _or_word({"differing": 0}, whole(1, MOST_FLOWS)), 0),
    ),
    "mtu": (
        Setting("largest", "longest_bytes", _between(parse_size_bytes, "1280 B", "65535 B"), 9216),
        Setting("tcp", "tcp_bytes", _or_word({"none": 0}, _between(parse_size_bytes, "10 kB", "10 MB")), 100_000),
        Setting("timeout", "timeout_ns", _between(parse_duration_ns, "50 ms", "10 s"), NS_PER_S),
    ),
    "ping": (
        Setting("count", "count", whole(1, 100_000), 20),
        Setting("interval", "interval_ns", _between(parse_duration_ns, "2 ms", "60 s"), NS_PER_S // 10),
        Setting("packet_bytes", "packet_bytes", _between(parse_size_bytes, "16 B", "65507 B"), 56),
        Setting("timeout", "timeout_ns", _between(parse_duration_ns, "50 ms", "60 s"), 2 * NS_PER_S),
    ),
    "stamp": (
        Setting("rate", "rate_pps", read_stamp_rate, 20_000),
        Setting(
            "packet_bytes",
            "packet_bytes",
            _between(parse_size_bytes, f"{STAMP_BYTES} B", f"{MAX_PAYLOAD} B"),
            STAMP_BYTES,
            weighed=True,
        ),
        Setting("packets", "packets", whole(1, 10**12), 2_000_000),
        Setting("timeout", "timeout_ns", _between(parse_duration_ns, "10 ms", "60 s"), 2 * NS_PER_S),
        Setting("window", "window", _or_auto("packets in flight"), 0),
        Setting("dscp", "dscp", parse_dscp, 0),
        Setting("ecn", "ecn", parse_ecn, 0),
        Setting("schedule", "schedule", choice(*SCHEDULES), "periodic"),
        Setting("max_burst", "max_burst", _or_auto("packets of a burst"), 0),
        Setting("authenticated", "authenticated", boolean, False),
    ),
    "marking": (
        Setting("dscp", "dscp", parse_dscp, [0, 24, 26, 34, 46, 48], several=True),  # CS0, CS3, AF31, AF41, EF, CS6
        Setting("ecn", "ecn", parse_ecn, [0, 1, 2, 3], several=True),
        Setting("packets", "packets", whole(1, 1000), 20),
        Setting("interval", "interval_ns", _between(parse_duration_ns, "1 ms", "1 s"), 5_000_000),
        Setting("timeout", "timeout_ns", _between(parse_duration_ns, "50 ms", "10 s"), NS_PER_S),
    ),
    "throughput": (
        Setting("streams", "streams", whole(1, 128), [1, 4, 16], several=True),
        Setting("warmup", "warmup_seconds", _seconds("0 s", "60 s"), 2),
        Setting("short", "short_seconds", _seconds("1 s", "1 h"), 5),
        Setting("block", "block_seconds", _seconds("1 s", "1 h"), 51),
        Setting("cap", "cap_seconds", _seconds("1 s", "24 h"), 218),  # three slow seconds still leave p5 to be proven
        Setting("both", "both", boolean, True),  # one more load, both ways at once
        Setting("compare", "compare", choice("bbr", "none"), "bbr"),
        Setting("beside", "beside_pps", _between(parse_packet_rate, "1 pps", "10 kpps"), 500),
        Setting(
            "congestion_control", "congestion_control", choice("default", "cubic", "reno", "bbr", "dctcp"), "cubic"
        ),
    ),
    "services": (
        Setting("steps", "shares", _ratio(0.01, 1), [0.25, 0.5, 0.75, 1.0], several=True),
        Setting("step", "step_ns", _or_word({"auto": 0}, _between(parse_duration_ns, "1 s", "1 h")), 10 * NS_PER_S),
        Setting("overshoot", "overshoot", boolean, True),
        Setting("directions", "directions", choice("each", "both"), "each"),
        Setting(
            "performance",
            "performance_ns",
            _or_word(
                {"none": 0} | {word: seconds * NS_PER_S for word, seconds in PERFORMANCE.items()},
                _between(parse_duration_ns, "10 s", "7 d"),
            ),
            PERFORMANCE["section"] * NS_PER_S,
        ),
        Setting("stream", "stream_pps", _between(parse_packet_rate, "1 pps", "10 kpps"), 200),
    ),
    "trains": (
        Setting("bytes", "bytes", _or_word({"auto": 0}, _between(parse_size_bytes, "1 MB", "100 GB")), 0),
        Setting("when", "when", choice("short", "always"), "short"),  # short: only where a goodput falls short
    ),
    "narrow": (Setting("bytes", "bytes", _or_word({"auto": 0}, _between(parse_size_bytes, "1 MB", "100 GB")), 0),),
    "gentle": (Setting("rounds", "rounds", whole(6, 600), 7),),
    "flows": (
        Setting("flows", "flows", whole(1, MOST_FLOWS), [1, 4, 16, 64], several=True),
        Setting("phase", "phase_ns", _between(parse_duration_ns, "1 s", "1 min"), 3 * NS_PER_S),
        Setting("when", "when", choice("short", "always"), "short"),
    ),
    "bursts": (
        Setting("pattern", "pattern", choice(*PATTERNS), PATTERNS[0]),
        Setting("count", "count", whole(1, 10_000_000), 1000),
        Setting("flows", "flows", whole(1, 128), 32),
        Setting("size", "size_bytes", _or_word({"auto": 0}, _between(parse_size_bytes, "1 B", "1 TB")), 0),
        Setting("period", "period_ns", _or_word({"auto": 0}, _between(parse_duration_ns, "100 us", "1 h")), 0),
        Setting("quiet", "quiet_ns", _between(parse_duration_ns, "100 us", "1 s"), 1_000_000),
        Setting("patience", "patience_ns", _between(parse_duration_ns, "100 ms", "60 s"), NS_PER_S),
        Setting("params", "parameters", _parameters, 0.0),  # of a model, which size and period then come from
        Setting("dtype", "dtype", choice(*DTYPE_BYTES), "bf16"),
        Setting("sites", "sites", whole(2, 1024), 2),
        Setting("ranks", "ranks", whole(2, 10_000_000), 0),
        Setting("collective", "collective", choice("hierarchical", "ring"), "hierarchical"),
        Setting("step", "step_ns", _between(parse_duration_ns, "1 ms", "1 h"), 0),
        Setting("share", "share", _ratio(1e-6, 1), 1.0),  # of what crosses, sent over this line
        Setting("within", "within_ns", _between(parse_duration_ns, "1 s", "24 h"), 60 * NS_PER_S),
    ),
    "search": (
        Setting(
            "frame_sizes",
            "frame_sizes",
            _or_word({"mtu": 0}, _between(parse_size_bytes, "64 B", "9234 B")),
            [*FRAME_SIZES, 0],
            several=True,
        ),
        Setting("goal", "goal", _ratio(0, 0.1), 0.0),
        Setting("resolution", "resolution", _ratio(1e-4, 0.1), 0.005),
        Setting("trial", "trial_ns", _between(parse_duration_ns, "100 ms", "10 min"), 2 * NS_PER_S),
        Setting("final", "final_ns", _between(parse_duration_ns, "100 ms", "1 h"), 60 * NS_PER_S),
        Setting("settle", "settle_ns", _between(parse_duration_ns, "0 s", "1 min"), 5 * NS_PER_S),
    ),
}


def defaults(probe: str) -> dict[str, Json]:
    """Settings of a probe that no profile says anything about."""
    return {setting.name: setting.default for setting in SETTINGS[probe]}


def read_probes(section: Section, needed: tuple[str, ...]) -> dict[str, dict[str, Json]]:
    """The probes of a profile with every setting filled in. Without `probes:` those in `needed` run with their defaults."""
    if not section.has("probes"):
        return {name: defaults(name) for name in needed}
    inner = section.section("probes")
    if inner is None:
        return {}
    found = {name: _read(one, settings) for name, settings in SETTINGS.items() if (one := inner.section(name))}
    inner.close()
    return found


def _read(section: Section, settings: tuple[Setting, ...]) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for setting in settings:
        if setting.several:
            values[setting.name] = list(section.get_list(setting.key, setting.read, tuple(setting.default)))
        elif setting.weighed and isinstance(section.raw(setting.key), Mapping):
            values |= _read_mix(section, setting)
        else:
            values[setting.name] = section.get(setting.key, setting.read, setting.default)
    _contradictions(section, values)
    section.close()
    return values


def _read_mix(section: Section, setting: Setting) -> dict[str, Json]:
    """ "{64: 7, 594: 4, 1518: 1}": ascending [[value, weight], ...], and the largest value."""
    inner = section.section(setting.key)
    assert inner is not None
    found: dict[int, int] = {}
    for key in inner.node.items:
        weight = inner.get(key, whole(1, 1_000_000), None)
        try:
            value = setting.read(key)
        except InputError as error:
            inner.complain(key, error.message, error.hint)
            continue
        if value in found:
            inner.complain(key, "names a size twice", "each once")
        if weight is not None:
            found[value] = weight
    if not inner.node.items:
        section.complain(
            setting.key, "is an empty mapping", "sizes and their weights, such as {64: 7, 594: 4, 1518: 1}"
        )
    mix = [[value, found[value]] for value in sorted(found)]
    return {setting.name: mix[-1][0] if mix else setting.default, "mix": mix}


def _contradictions(section: Section, values: dict[str, Json]) -> None:
    if values.get("authenticated"):
        if not section.has("packet_bytes"):
            values["packet_bytes"] = SIGNED_BYTES
        smallest = values["mix"][0][0] if values.get("mix") else values["packet_bytes"]
        if smallest < SIGNED_BYTES:
            section.complain(
                "packet_bytes",
                f"{smallest} B is too small: authenticated packets have at least {SIGNED_BYTES} B",
                f"{SIGNED_BYTES} B and more, or leave it out",
            )
    if "cap_seconds" in values:
        for key in ("short", "block", "cap"):
            if values["warmup_seconds"] >= values[f"{key}_seconds"]:
                span = f"{values[f'{key}_seconds']} s"
                section.complain(
                    "warmup", f"is not shorter than what it comes before, '{key}' ({span})", f"less than {span}"
                )
                break
        if values["block_seconds"] > values["cap_seconds"]:
            section.complain("block", f"is longer than cap ({values['cap_seconds']} s)", "at most the cap")
        if len(set(values["streams"])) < len(values["streams"]):
            section.complain("streams", "names a number twice", "each once")
        values["streams"] = sorted(set(values["streams"]))
    if "shares" in values and 1.0 not in values["shares"]:
        section.complain("steps", "leave out the full CIR, which is what is contracted", "100 % among them")
    if "parameters" in values:
        _bursts(section, values)
    if "interval_ns" in values and "count" in values and values["count"] * values["interval_ns"] > 3600 * NS_PER_S:
        section.complain(
            "count", f"{values['count']} echoes at this interval take more than an hour", "a run of at most 1 h"
        )


def _bursts(section: Section, values: dict[str, Json]) -> None:
    """Size and period are given, or both come from a model."""
    if not values["parameters"]:
        for key in ("dtype", "sites", "ranks", "collective", "step", "share", "within"):
            if section.has(key):
                section.complain(key, "stands without params, the model it belongs to", "params: 7e9, or leave it out")
        return
    for key in ("size", "period"):
        if section.has(key):
            section.complain(key, "stands beside params, which it would come from", "one of them")
    if not values["step_ns"]:
        section.complain("step", "is missing: how long one training step takes", "step: 5 s")
    if values["collective"] == "ring" and not values["ranks"]:
        section.complain("ranks", "is missing: a ring goes through all of them", "ranks: 64")
