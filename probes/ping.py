"""ICMP echo by the system's own ping: a cross-check by other means, never a judge. Floor 4.

iputils' ping runs as a child; pingparsing reads its counts, its summary and each reply. What that parser passes over is added
here: errors, corrupted replies, and which sequence numbers were never answered (ping's own "no answer yet" says only that the
next request left before the answer came, and says nothing of the last one).
"""

from __future__ import annotations

import re
import socket
import time
import warnings

from linkqual.errors import HostError
from linkqual.model import Fault, Json, Measurement, PingResult, Step
from linkqual.net import child
from linkqual.probes.bench import Bench, Progress, fault_of
from linkqual.stats.loss import unwrapped
from linkqual.units import NS_PER_S

OVERTIME_S = 10.0  # for the name, the start, and the last answer
NS_PER_MS = 1_000_000
_LONGEST_LINE = 512  # ping writes no longer one; the parser takes the square of a line's length
_EXTRA = re.compile(r"\+(\d+) (duplicates|corrupted|errors)")


def measure(step: Step, bench: Bench) -> Measurement:
    """Ping the far end as often as the step says; no answer at all is a result, not a fault."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    result: PingResult | None = None
    try:
        ended = child.run(
            _command(step, bench),
            timeout_s=step.duration_ns / NS_PER_S + OVERTIME_S,
            stop=lambda: "interrupted" if bench.interrupted() else "",
            tick=_teller(step, bench),
        )
    except HostError as error:
        fault: Fault | None = fault_of(error, "missing-program")
    else:
        text = ended.output.decode("utf-8", "replace")
        complaint = ended.errors.decode("utf-8", "replace").strip()
        bench.save_raw(f"{step.key}.txt", text + (f"\n{complaint}\n" if complaint else ""))
        read_back = read(text) if text.strip() else _fault(complaint, ended.exit_code)
        result, fault = (read_back, None) if isinstance(read_back, PingResult) else (None, read_back)
        if ended.stopped:
            fault = fault if result is None and ended.stopped != "interrupted" else _cut_short(ended.stopped)
        elif fault is None and complaint and ended.exit_code == 2:
            fault = _fault(complaint, ended.exit_code)
    return Measurement(step, started_ns, time.monotonic_ns() - clock, ping=result, fault=fault)


def read(text: str) -> PingResult | Fault:
    """What one run of `ping -D -O -n` wrote -> counts and delays, or the Fault of a text that is none or was cut."""
    from pingparsing import PingParsing

    text = "\n".join(line[:_LONGEST_LINE] for line in text.split("\n"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a parser the parser is built on
            stats = PingParsing().parse(text)
        sent, received = stats.packet_transmit, stats.packet_receive
        replies = [reply for reply in stats.icmp_replies if "time" in reply]
    except Exception as error:  # the parser has no base class for its complaints
        return Fault("damaged-output", f"what ping wrote cannot be read: {error or type(error).__name__}", _KEPT)
    if sent is None or received is None:
        return Fault("damaged-output", "ping wrote no closing statistics", _KEPT)
    extras = {name: int(count) for count, name in _EXTRA.findall(text.rpartition("ping statistics")[2])}
    numbers = [1, *(int(reply["icmp_seq"]) for reply in replies)]  # counted from 1, in 16 bits
    answered = set(unwrapped(numbers, bits=16)[1:].tolist())
    return PingResult(
        sent=sent,
        received=received,
        duplicates=extras.get("duplicates", 0),
        errors=extras.get("errors", 0),
        corrupted=extras.get("corrupted", 0),
        unanswered=tuple(number for number in range(1, sent + 1) if number not in answered),
        rtt_ns=tuple(_ns(reply["time"]) for reply in replies if not reply["duplicate"]),
        rtt_min_ns=_known_ns(stats.rtt_min),
        rtt_avg_ns=_known_ns(stats.rtt_avg),
        rtt_max_ns=_known_ns(stats.rtt_max),
        rtt_mdev_ns=_known_ns(stats.rtt_mdev),
    )


_KEPT = "its text is kept in the run folder's raw/"


def _command(step: Step, bench: Bench) -> list[str]:
    params = step.params
    command = [child.find("ping"), "-6" if bench.family == socket.AF_INET6 else "-4", "-D", "-O", "-n"]
    command += ["-c", str(params["count"]), "-i", _seconds(params["interval_ns"])]
    if "packet_bytes" in params:
        command += ["-s", str(params["packet_bytes"])]
    if "timeout_ns" in params:
        command += ["-W", _seconds(params["timeout_ns"])]
    if bench.near_address:
        command += ["-I", bench.near_address]
    return [*command, bench.peer_address]


def _seconds(ns: int) -> str:
    return f"{ns // NS_PER_S}.{ns % NS_PER_S:09d}".rstrip("0").rstrip(".")


def _teller(step: Step, bench: Bench) -> Json:
    count, interval_ns = step.params["count"], step.params["interval_ns"]

    def tell(elapsed_s: float) -> None:
        done = min(count, int(elapsed_s * NS_PER_S // interval_ns) + 1)
        left_ns = max(0, count * interval_ns - int(elapsed_s * NS_PER_S))
        bench.progress(Progress("ping", done, count, left_ns=left_ns))

    return tell


def _ns(milliseconds: float) -> int:
    return round(milliseconds * NS_PER_MS)


def _known_ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else _ns(milliseconds)


def _cut_short(stopped: str) -> Fault:
    if stopped == "interrupted":
        return Fault("interrupted", "ping was interrupted; what it had measured is kept")
    return Fault("timeout", "ping did not end in time and was ended", "run it by hand to see why: ping -c 3 ADDRESS")


def _fault(complaint: str, exit_code: int) -> Fault:
    """What ping says when it cannot even begin."""
    said = complaint.splitlines()[0].removeprefix("ping: ") if complaint else f"exit code {exit_code}"
    lower = complaint.lower()
    if "unreachable" in lower or "no route" in lower or "not known" in lower or "name resolution" in lower:
        return Fault("unreachable", f"ping cannot reach the far end: {said}", "check the address and the routes")
    if "cannot flood" in lower or "minimal interval" in lower:
        return Fault("no-capability", f"ping: {said}", "lengthen probes.ping.interval, or run as root")
    if "permitted" in lower or "permission" in lower or "socket" in lower:
        hint = "allow it: sysctl -w net.ipv4.ping_group_range='0 2147483647', or setcap cap_net_raw+p on ping"
        return Fault("no-capability", f"ping may not send: {said}", hint)
    if "invalid option" in lower or "unrecognized option" in lower or "usage" in lower:
        return Fault("missing-program", "this ping is not iputils' one", child.install_hint("ping"))
    return Fault("failed", f"ping failed: {said}", "run it by hand to see why: ping -c 3 ADDRESS")
