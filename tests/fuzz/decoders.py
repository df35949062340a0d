"""Everything in linkqual that reads octets of a network or of a file, as functions any octets may be thrown at.

A decoder returns, or raises one of its named errors; anything else, and taking for ever, is a fault. `Decoder.seeds` are sound
inputs to start from. hypothesis (test_decoders.py) and atheris (run.py, `make fuzz`) share this table.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from linkqual import capture, document, link, profile, profiles, store
from linkqual.errors import InputError, LinkqualError, UsageError, WireError
from linkqual.lab import line
from linkqual.model import Direction, MtuHop, MtuTried, MtuWay
from linkqual.net.mtu_tcp import mss_of_syn
from linkqual.probes import iperf3_output, ping
from linkqual.records import ABSENT, empty_records
from linkqual.session.bursts import Shape
from linkqual.session.bursts_arriving import Arriving
from linkqual.session.bursts_sending import Sending
from linkqual.session.captured_sessions import Sessions
from linkqual.session.load_count import LoadCounter
from linkqual.session.reflector import ReflectorSession, ReflectorSettings
from linkqual.session.sender import SenderSession, SenderSettings
from linkqual.session.tails import ASKABLE, Tails, requests
from linkqual.wire import (
    bursts,
    clock_words,
    codepoints,
    control,
    frame,
    hops_json,
    icmp,
    load,
    mtu,
    mtu_json,
    pairing,
    stamp,
    stamp_auth,
    tlv,
    tlv_values,
    trace_json,
    trace_probe,
)
from linkqual.wire.requests import checked
from linkqual.wire.stamp import Mode
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate
from linkqual.wire.tlv import Tlv

KEY = bytes(range(32))
T = 1_700_000_000 * 10**9
MS = 1_000_000
ERROR = ErrorEstimate.of(1000)
VALUES: tuple[Any, ...] = (
    tlv_values.Location,
    tlv_values.TimestampInformation,
    tlv_values.ClassOfService,
    tlv_values.DirectMeasurement,
    tlv_values.AccessReport,
    tlv_values.FollowUp,
)
TAIL = tlv.encode(
    [
        Tlv(7, bytes(16)),
        Tlv(4, bytes(4)),
        Tlv(5, bytes(12)),
        Tlv(2, tlv_values.Location.asking((4, 7)).encode()),
        Tlv(1, b"pad"),
    ]
)
REQUEST = SenderPacket(7, T, ERROR, 3, TAIL)
REPLY = ReflectorPacket(5, T + 9, ERROR, 3, T + 5, 7, T, ERROR, 250, tlv.answer(TAIL, {7: lambda value: value}))


@dataclass(frozen=True, slots=True)
class Decoder:
    """`errors`: what it may raise."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    errors: tuple[type[Exception], ...] = (WireError,)

    def __call__(self, data: bytes) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # numpy's way of saying that a number does not fit
                self.read(data)
        except self.errors as error:
            _plain(error)


def _plain(error: Exception) -> None:
    """An error's message is there. Of a settings file it lists every complaint, a line each; any other is one line."""
    message = error.message if isinstance(error, LinkqualError) else ""
    if not message:
        raise AssertionError(f"{type(error).__name__} says nothing")


def _quietly(*calls: Callable[[], object]) -> None:
    """Each of several decoders of one kind, whatever the others raise."""
    for call in calls:
        try:
            call()
        except WireError as error:
            _plain(error)


# ---- STAMP


def packets(data: bytes) -> None:
    """Single packets: what can be read is written again alike, but for what must be zero."""

    def again(kind: Any, mode: Mode) -> None:
        packet = kind.decode(data, mode=mode)
        assert kind.decode(packet.encode(mode), mode=mode) == packet

    _quietly(
        *(lambda kind=kind, mode=mode: again(kind, mode) for kind in (SenderPacket, ReflectorPacket) for mode in Mode)
    )


def signed_packets(data: bytes) -> None:
    """Authenticated ones, and their tails."""
    _quietly(
        lambda: stamp_auth.decode_sender(data, KEY),
        lambda: stamp_auth.decode_reflector(data, KEY),
        lambda: stamp_auth.check_tlvs(data, 7, KEY),
    )
    rows = _rows(data, 112)
    good = stamp_auth.verified_tlvs(rows, KEY)
    stamp_auth.sign_tlvs(rows, KEY)
    stamp_auth.sign(rows, KEY)
    assert stamp_auth.verified(rows, KEY).all()
    assert (stamp_auth.verified_tlvs(rows, KEY) >= good).all()


def tlvs(data: bytes) -> None:
    """TLVs, their values, the answer to them and what may be used of it."""
    known = {kind: _echo(value) for kind, value in zip((2, 3, 4, 5, 6, 7), VALUES, strict=True)}
    for intact in (True, False):
        reply = tlv.answer(data, known, intact=intact)
        assert len(reply) == len(data)
        tlv.read_reply(reply)
    _quietly(lambda: tlv.parse(data), *(lambda kind=kind: kind.decode(data) for kind in VALUES))


def _echo(kind: Any) -> Callable[[bytes], bytes]:
    return lambda value: kind.decode(value).encode()


def _rows(data: bytes, least: int) -> np.ndarray:
    """One to four packets of one length."""
    size = max(least, len(data) // (1 + data[0] % 4)) if data else least
    count = max(1, len(data) // size)
    return np.frombuffer(data.ljust(count * size, b"\0")[: count * size], np.uint8).reshape(count, size).copy()


def reflector(data: bytes) -> None:
    """The whole reflector: what it answers is as long as what came, and every packet is counted once."""
    for key in (b"", KEY):
        session = ReflectorSession(
            ReflectorSettings(ssid=3, max_pps=1000, max_packets=10**6, max_bytes=10**9, error=ERROR, key=key)
        )
        rows = _rows(data, 112 if key else 44)
        if key:
            stamp_auth.sign(rows, key)
        count = len(rows)
        lengths, times = np.full(count, rows.shape[1]), np.full(count, T)
        admitted = session.admit(rows, lengths, np.ones(count, np.bool_), times, 10**9)
        chosen = np.flatnonzero(admitted)
        octets = np.zeros(len(chosen), np.uint8)
        answered = rows[chosen]
        if len(chosen):
            session.answer(answered, chosen, session.number(len(chosen)), times[chosen], octets, octets, T)
        figures = session.figures()
        kinds = ("answered", "malformed", "wrong_key", "wrong_ssid", "replayed", "over_cap")
        assert sum(figures[kind] for kind in kinds) == count
        assert answered.shape == (len(chosen), rows.shape[1])


def sender(data: bytes) -> None:
    """The whole sender, waiting for replies."""
    for key in (b"", KEY):
        mode = Mode.AUTHENTICATED if key else Mode.UNAUTHENTICATED
        template = stamp.request_template(300, mode=mode, ssid=3, tlvs=requests(tuple(ASKABLE), 0)).tobytes()
        settings = SenderSettings(3, 300, 1000 * MS, 10 * MS, MS, 1024, 512, key=key)
        session = SenderSession(settings, Tails(template, mode))
        session.depart(np.full(20, T), T, 0)
        rows = _rows(data, mode)
        if key:
            stamp_auth.sign(rows, key)
        nothing, octets = np.full(len(rows), ABSENT), np.zeros(len(rows), np.uint8)
        session.receive(rows, nothing, octets, octets, T, MS)
        assert len(session.settle(10**12)) == 20


def loads(data: bytes) -> None:
    """A receiver's word, and packets of load as the receiver counts them: every one of them in one count."""
    _quietly(lambda: load.Told.decode(data))
    rows = _rows(data, load.HEAD_BYTES)
    heads = load.heads(rows, 0, len(rows))[:, 0]
    counter = LoadCounter(4, 1000 * MS)
    columns = [heads[name].astype(np.int64) for name in ("sequence", "flow", "sent_ns")]
    for _ in range(2):
        counter.take(*columns, np.full(len(rows), T), np.full(len(rows), rows.shape[1]))
    assert counter.received + counter.duplicates + counter.damaged + counter.forgotten == 2 * len(rows)
    counter.data()


BURSTS = Shape(
    bursts=20, packets=30, packet_bytes=64, flows=2, gap_ns=1000.0, period_ns=MS, quiet_ns=1000, patience_ns=5 * MS,
    overlap=True, most_repeats=10,
)  # fmt: skip


def burst_packets(data: bytes) -> None:
    """Answers as the sender takes them, and data as the receiver does: each of its bursts in one row."""
    sending = Sending(BURSTS, 1000, 0)
    sending.departures(0, 10)
    with contextlib.suppress(WireError):
        reply = bursts.decode(data, int.from_bytes(data[:8], "big"))
        if isinstance(reply, bursts.Missing):
            sending.missing(reply, MS)
        elif isinstance(reply, bursts.Complete):
            sending.complete(reply, MS)
    rows = _rows(data, bursts.HEAD_BYTES)
    heads = bursts.heads(rows)[:, 0]
    bursts.data_heads(heads, 7)
    arriving = Arriving(BURSTS)
    columns = [heads[name].astype(np.int64) for name in ("burst", "index", "copy")]
    for at in (0, MS, 9 * MS):
        arriving.add(*columns, at)
        arriving.due(at)
    settled = arriving.rows(final=True)
    assert len(set(settled["burst"].tolist())) == len(settled)
    assert (settled["received"] + settled["lost"].sum(axis=1) == BURSTS.packets).all()


# ---- the control channel


def frames(data: bytes) -> None:
    """A frame of the control channel, its request checked, and the texts packed into it."""
    text = data.decode("latin-1")
    _quietly(
        lambda: control.frame_length(data[:4]),
        lambda: control.encode(control.decode(data)),
        lambda: control.text_bytes(text),
        lambda: control.unpacked_text(text),
        lambda: control.unpacked_text(control.bytes_text(data)),
    )
    message = control.decode(data)
    if isinstance(message, control.Request):
        checked(message)


def traces(data: bytes) -> None:
    """A trace as the far end tells it."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(tree, dict) and "asked" in tree:
        answers = hops_json.decode(tree)
        assert hops_json.decode(hops_json.encode(*answers)) == answers
        return
    trace = trace_json.decode(tree)
    assert trace_json.decode(trace_json.encode(trace)) == trace


def trace_packets(data: bytes) -> None:
    """What a trace's probes and targets carry."""
    _quietly(
        lambda: trace_probe.number_of_quote(data),
        lambda: trace_probe.number_of_reply(data),
        lambda: trace_probe.recorded_of_reply(data),
        lambda: trace_probe.reply(data),
        lambda: trace_probe.reply(data, icmp.recorded(data[:40])),
        lambda: icmp.labels_behind_payload(4, data),
        lambda: icmp.labels_behind_payload(6, data),
    )


def mtu_packets(data: bytes) -> None:
    """Questions and answers about the MTU, a SYN as the kernel kept it, and what an agent says it found."""
    _quietly(lambda: mtu.asked(data, bytes(8)), lambda: mtu.got(data, bytes(8)), lambda: mss_of_syn(data))
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(tree, dict):
        way = mtu_json.decode(tree, Direction.REVERSE)
        assert mtu_json.decode(mtu_json.encode(way), Direction.REVERSE) == way


def quotes(data: bytes) -> None:
    """ICMP errors."""
    _quietly(lambda: icmp.parse_v4(data), lambda: icmp.parse_v6(data))
    icmp.labels(data, len(data) // 2)


# ---- words


def pairing_line(data: bytes) -> None:
    """What a user pastes; what can be read is written again alike."""
    peer = pairing.Peer.parse(_text(data))
    assert pairing.Peer.parse(peer.line) == peer


def clocks(data: bytes) -> None:
    """What programs say of a clock."""
    text = _text(data)
    clock_words.chrony(text)
    clock_words.timesyncd(text)
    clock_words.ptp(text, steered=True)
    clock_words.span(text)


def marks(data: bytes) -> None:
    """Code points by name."""
    text = _text(data)
    _words(lambda: codepoints.parse_dscp(text), lambda: codepoints.parse_ecn(text))


def _words(*calls: Callable[[], object]) -> None:
    for call in calls:
        try:
            call()
        except InputError as error:
            _plain(error)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape" if data[:1] == b"\xff" else "replace")


def iperf3(data: bytes) -> None:
    """An iperf3 document."""
    iperf3_output.read(_text(data))


def pings(data: bytes) -> None:
    """What ping wrote."""
    ping.read(_text(data))


# ---- files


def captured_frames(data: bytes) -> None:
    """Frames of a capture, by every link-layer type, into sessions."""
    sessions = Sessions(1000 * MS, port=862 if len(data) % 2 else None)
    for kind in (0, 1, 101, 113, 276):
        found = frame.datagram(data, kind)
        if found is not None:
            sessions.add(found, T)
            sessions.add(found._replace(source_port=found.destination_port, destination_port=found.source_port), T + MS)
    bare = frame.Datagram(b"\1\2\3\4", b"\4\3\2\1", 4000, 862, 9, 0, min(len(data), 65527), data)
    sessions.add(bare, T)
    for session in sessions.found.values():
        list(session.settle(T + MS))
        list(session.finish(T + 2 * MS))
        session.attribution()


@cache
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="linkqual-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def capture_file(data: bytes) -> None:
    """A whole capture file."""
    file = _scratch() / "capture"
    file.write_bytes(data)
    capture.recount(file, capture.Reading(), 1000 * MS)


def settings_files(data: bytes) -> None:
    """Profiles, link files and lines."""
    from linkqual.settings import decode

    text = decode(data, "file.yaml")
    _words(
        lambda: profile.parse(text, "file.yaml"),
        lambda: link.parse(text, "file.yaml"),
        lambda: line.parse(text, "file.yaml"),
    )


def stored_document(data: bytes) -> None:
    """A run.json."""
    document.load(_text(data))


def stored_packets(data: bytes) -> None:
    """A file of packets: what is readable before the damage."""
    folder = _scratch() / "packets"
    folder.mkdir(exist_ok=True)
    (folder / "stamp.arrow").write_bytes(data)
    for rows in store.packets(_scratch(), "stamp"):
        assert rows.dtype.names


# ---- seeds


def _arrow() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        run = store.Run(Path(folder) / "run")
        file = run.save_packets("stamp")
        file.write(empty_records(5))
        file.close()
        return (Path(folder) / "run" / "packets" / "stamp.arrow").read_bytes()


def _pcap() -> bytes:
    import struct

    octets = _frames()[0]
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    return head + struct.pack("<IIII", 1_700_000_000, 5, len(octets), len(octets)) + octets


def _pcapng() -> bytes:
    import struct

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    octets = _frames()[0]
    begin = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack("<HHIHHBxxxHH", 1, 0, 0, 9, 1, 9, 0, 0))
    return begin + interface + block(6, struct.pack("<IIIII", 0, 1, 2, len(octets), len(octets)) + octets)


def _frames() -> tuple[bytes, ...]:
    import struct

    payload = REQUEST.encode()
    udp = struct.pack("!HHHH", 4000, 862, 8 + len(payload), 0) + payload
    four = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + udp
    six = struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + bytes(31) + b"\1" + bytes(31) + b"\2" + udp
    return bytes(12) + b"\x08\x00" + four, bytes(12) + b"\x86\xdd" + six, four, six


def _icmp() -> tuple[bytes, ...]:
    four, six = _frames()[2:]
    stack = b"\x20\0\0\0" + b"\0\x08\1\1" + b"\0\x01\x01\xff"
    return (
        b"\x0b\0\0\0\0\0\0\0" + four[:60],
        b"\x0b\0\0\0\0\x20\0\0" + four[:60].ljust(128, b"\0") + stack,
        b"\x03\0\0\0\x10\0\0\0" + six[:80].ljust(128, b"\0") + stack,
    )


def _iperf3() -> bytes:
    stream = {"socket": 5, "start": 0, "end": 1.0, "seconds": 1.0, "bytes": 1000, "bits_per_second": 8000.0, "retransmits": 1,
              "snd_cwnd": 1, "rtt": 100, "rttvar": 1, "pmtu": 1500, "omitted": False, "sender": True}  # fmt: skip
    return json.dumps({"start": {"version": "iperf 3.12", "tcp_mss_default": 1448}, "intervals": [{"streams": [stream], "sum": stream}],
                       "end": {"streams": [{"sender": stream, "receiver": stream}], "sum_sent": stream, "sum_received": stream,
                               "cpu_utilization_percent": {"host_total": 1.0, "remote_total": 2.0}}}).encode()  # fmt: skip


PING = b"""PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.
[1700000000.5] 64 bytes from 192.0.2.2: icmp_seq=1 ttl=64 time=0.5 ms
[1700000001.5] no answer yet for icmp_seq=2

--- 192.0.2.2 ping statistics ---
2 packets transmitted, 1 received, 50% packet loss, time 1001ms
rtt min/avg/max/mdev = 0.5/0.5/0.5/0.0 ms
"""
CHRONY = b"C0000201,192.0.2.1,2,1700000000.1,-0.000001,0.0,0.000002,1.5,0.1,0.2,0.001,0.0002,64.0,Normal\n"
TIMESYNC = b"""       Server: 192.0.2.1 (ntp.example)
Poll interval: 1min 4s (min: 32s; max 34min 8s)
         Leap: normal
      Version: 4
      Stratum: 2
    Reference: C0000201
    Precision: 1us (-24)
Root distance: 1.2ms (max: 5s)
       Offset: -85us
        Delay: 512us
       Jitter: 90us
 Packet count: 12
    Frequency: +1.2ppm
"""
PTP4L = b"""sending: GET CURRENT_DATA_SET
        0000.0000-1 seq 0 RESPONSE MANAGEMENT CURRENT_DATA_SET
                stepsRemoved     1
                offsetFromMaster -12.0
                meanPathDelay    512.0
"""


def _control() -> tuple[bytes, ...]:
    request = control.Request(1, "stamp.counters", {"session": "a"})
    refusal = control.Refusal(2, "busy", "no", "wait")
    answer = control.Answer(3, {"text": control.packed_text("long" * 50), "list": [1, 2.5, None, True, "x"]})
    return (
        *(control.encode(each)[4:] for each in (request, refusal, answer)),
        control.packed_text("text").encode(),
        zlib.compress(b"x" * 99),
    )


TRACE = {"source": "192.0.2.1", "destination": "192.0.2.2", "source_port": 1, "destination_port": 2, "fault": None,
         "hops": [{"ttl": 1, "address": "192.0.2.9", "rtt_ns": [5], "sent": 3, "received": 1, "labels": ["label=1"], "reply_ttl": 64,
                   "quoted_ttl": 1, "reached": False, "others": [], "egress": None, "quoted_tos": 0}]}  # fmt: skip
HOPS = {"addresses": ["192.0.2.9"], "asked": [[1, 0, 5, 0], [2, 7, -1, -1]], "ended_ns": 9}
LINE = f"linkqual://192.0.2.1:4862?token=abcdefghijklmnop&cert=sha256:{'ab' * 32}"


def _document() -> bytes:
    return (Path(__file__).parents[1] / "document" / "golden" / "schema-1.json").read_bytes()


def _profiles() -> tuple[bytes, ...]:
    lines = (Path(line.__file__).parent / "lines").glob("*.yaml")
    return *(profiles.text(name).encode() for name in profiles.names()), *(
        each.read_bytes() for each in sorted(lines)[:3]
    )


def _stamp_seeds() -> tuple[bytes, ...]:
    short = SenderPacket(7, T, ERROR, 3), ReflectorPacket(5, T + 9, ERROR, 3, T + 5, 7, T, ERROR, 250)
    closed = stamp_auth.close(tlv.parse(TAIL), 7, KEY)
    signed = stamp_auth.encode_sender(SenderPacket(7, T, ERROR, 3, closed), KEY)
    answered = stamp_auth.encode_reflector(ReflectorPacket(5, T + 9, ERROR, 3, T + 5, 7, T, ERROR, 250, closed), KEY)
    templates = (
        stamp.request_template(100, ssid=3, error=ERROR),
        stamp.request_template(200, mode=Mode.AUTHENTICATED, ssid=3, error=ERROR),
    )
    return (
        REQUEST.encode(),
        REPLY.encode(),
        *(each.encode() for each in short),
        signed,
        answered,
        *(each.tobytes() for each in templates),
    )


@cache
def decoders() -> dict[str, Decoder]:
    """By name."""
    stamps = _stamp_seeds()
    return {
        "packets": Decoder(packets, stamps),
        "mtu": Decoder(
            mtu_packets,
            (
                mtu.question(bytes(8), 7, 60),
                mtu.answer(bytes(8), 7, 1472, 576),
                b"\x45" + bytes(31) + b"\x60" + bytes(7) + b"\x02\x04\x05\xb4",
                json.dumps(
                    mtu_json.encode(MtuWay(Direction.REVERSE, "told", hops=(MtuHop(1),), tried=(MtuTried(1, 2, 3),)))
                ).encode(),
            ),
        ),
        "signed-packets": Decoder(signed_packets, stamps),
        "tlvs": Decoder(
            tlvs,
            (
                TAIL,
                stamp_auth.close(tlv.parse(TAIL), 7, KEY),
                *(kind.decode(bytes(16)).encode() for kind in VALUES[:2]),
            ),
        ),
        "reflector": Decoder(reflector, stamps),
        "loads": Decoder(
            loads,
            (load.Told(1, 2, 3, 4, T, 5, 6, 7, 8, 9).encode(), load.template(7, 64).tobytes()),
        ),
        "bursts": Decoder(
            burst_packets,
            tuple(
                bursts.encode(7, reply)
                for reply in (
                    bursts.Hello(3, True, 1),
                    bursts.Ready(3, 9),
                    bursts.Complete(4, 9),
                    bursts.Missing(4, ((1, 2),)),
                )
            ),
        ),
        "sender": Decoder(sender, stamps),
        "control": Decoder(frames, _control()),
        "traces": Decoder(traces, (json.dumps(TRACE).encode(), json.dumps(HOPS).encode())),
        "trace-packets": Decoder(trace_packets, (trace_probe.encode(3), trace_probe.reply(trace_probe.encode(3)))),
        "icmp": Decoder(quotes, _icmp()),
        "pairing-line": Decoder(
            pairing_line,
            (LINE.encode(), b"[2001:db8::1]:4862", b"host.example:1", b"Host:" + b"9" * 5000),
            (UsageError,),
        ),
        "clocks": Decoder(clocks, (CHRONY, TIMESYNC, PTP4L, b"1min 4s"), ()),
        "code-points": Decoder(marks, (b"AF41", b"ECT(0)", b"63", b"9" * 5000), ()),
        "iperf3": Decoder(iperf3, (_iperf3(), b'{"error": "busy"}'), ()),
        "ping": Decoder(pings, (PING,), ()),
        "frames": Decoder(captured_frames, (*_frames(), *stamps), ()),
        "capture-file": Decoder(capture_file, (_pcap(), _pcapng()), (InputError,)),
        "settings": Decoder(settings_files, _profiles(), (InputError,)),
        "document": Decoder(stored_document, (_document(),), (InputError,)),
        "arrow": Decoder(stored_packets, (_arrow(),), ()),
    }
