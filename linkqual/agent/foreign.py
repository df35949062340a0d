"""A reflector for senders that are not ours: sessions from a file, no control channel, no token, nobody else answered. Floor 5.

One process a local address; it tells the sessions apart. Every ten seconds, and at the end, one line a session.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from linkqual.model import Json
from linkqual.net import addresses, clock_state
from linkqual.net.reflector import ReflectorConfig, SharedReflector, of_clock
from linkqual.provision import Provision
from linkqual.session.reflector import SHORTEST_REPLY
from linkqual.units import NS_PER_S, format_instant

PORT = 862  # RFC 8762 s4.1
SAY_EVERY_S = 10.0
_FOR_EVER_S = 100 * 366 * 86400
_NO_CAP = 1 << 62
_LISTEN_S = 0.1  # how soon an end is noticed
_WORDS = {  # counters of `session.reflector.ReflectorCounters` that are said when they are not 0
    "answered": "answered",
    "duplicates": "of them seen before",
    "unanswered": "this host could not send",
    "malformed": "malformed",
    "wrong_key": "wrongly signed",
    "wrong_ssid": "of another SSID or port",
    "replayed": "replayed",
    "over_cap": "over the rate or after the end",
    "foreign": "from strangers",
    "socket_drops": "dropped by this host",
}


def serve(
    sessions: Sequence[Provision],
    bind: str,
    port: int,
    say: Callable[[str], None],
    ended: Callable[[], object],
    every_s: float = SAY_EVERY_S,
) -> None:
    """Until `ended()` says so. `bind` "": on the addresses of this host that lead to the sources.

    Raises HostError (port, address) and PeerError (no way to a source) before anything is served.
    """
    with ExitStack() as stack:
        ports = [_Port(address, port, some) for address, some in _by_address(sessions, bind, port).items()]
        for one in ports:
            stack.callback(one.close)
            say(one.start() + ("" if bind else " (the way to the sources; --bind ADDRESS for another)"))
        for session in sessions:
            if _ended(session):
                say(
                    f"{session.until_at or session.name}: this instant is over: {session.name} ({session.source}) is not answered; "
                    "give a later one, or leave it out, and start again"
                )
        due = time.monotonic() + every_s
        while not ended():
            time.sleep(_LISTEN_S)
            if time.monotonic() >= due:
                due += every_s
                for line in (line for one in ports for line in one.lines()):
                    say(line)
        for one in ports:
            one.stop()
            for line in one.lines("in all: "):
                say(line)


def _by_address(sessions: Sequence[Provision], bind: str, port: int) -> dict[str, list[Provision]]:
    found: dict[str, list[Provision]] = {}
    for session in sessions:
        here = bind or addresses.way_to(session.source, session.port or port or PORT)[0]
        found.setdefault(here, []).append(session)
    return found


class _Port:
    """The sessions of one local address."""

    def __init__(self, address: str, port: int, sessions: Sequence[Provision]) -> None:
        self._address, self._sessions = address, sessions
        clock = of_clock(clock_state.clock_state())
        now_ns = time.time_ns()
        self._configs = [
            ReflectorConfig(
                bind_address=address,
                port=port,
                peer_address=one.source,
                peer_port=one.port,
                ssid=one.ssid,
                key=one.key,
                stateless=one.stateless,
                form=one.timestamps,
                mark=one.mark,
                max_pps=one.max_pps,
                max_seconds=_seconds(one, now_ns),
                max_packets=_NO_CAP,
                max_bytes=_NO_CAP,
                foreign=True,
                **clock,
            )
            for one in sessions
        ]
        self._reflector: SharedReflector | None = None
        self._warned: set[str] = set()

    def start(self) -> str:
        """What was started, in one line."""
        self._reflector = SharedReflector.start(self._configs)
        names = ", ".join(one.name for one in self._sessions)
        return f"reflecting on {self._reflector.address} UDP port {self._reflector.port} for {names}"

    def lines(self, before: str = "") -> list[str]:
        """One a session, one for what belongs to none when there was any; and what a sender must do to be answered, once."""
        assert self._reflector is not None
        told = self._reflector.counters()
        said = [
            f"{one.name} ({one.source}, SSID {'any' if one.ssid is None else one.ssid}): {before}{_counted(counters)}{_ended(one)}"
            for one, counters in zip(self._sessions, told["sessions"], strict=True)
        ]
        strangers = _counted(told["port"], "")
        said += [f"port {self._reflector.port}: {before}{strangers}"] if strangers else []
        for one, counters in zip(self._sessions, told["sessions"], strict=True):
            if counters["short"] and one.name not in self._warned:
                self._warned.add(one.name)
                said.append(_too_short(one))
        return said

    def stop(self) -> None:
        """Answer no more; `lines` then says the totals."""
        assert self._reflector is not None
        self._reflector.stop()

    def close(self) -> None:
        """Idempotent."""
        if self._reflector is not None:
            self._reflector.close()


def _seconds(session: Provision, now_ns: int) -> int:
    if session.until_ns is None:
        return _FOR_EVER_S
    return max(0, math.ceil((session.until_ns - now_ns) / NS_PER_S))


def _ended(session: Provision) -> str:
    if session.until_ns is None or time.time_ns() < session.until_ns:
        return ""
    return f"; ended {format_instant(session.until_ns)[:19]}Z"


def _counted(counters: Json, nothing: str = "nothing came") -> str:
    said = [f"{counters[name]:,} {word}" for name, word in _WORDS.items() if counters.get(name)]
    if counters.get("held"):
        said.append(
            f"{counters['held']:,} from other ports not answered: held by port {counters['port']} "
            f"until it is silent for {counters['hold_ns'] / NS_PER_S:.2g} s"
        )
    return ", ".join(said) or nothing


def _too_short(session: Provision) -> str:
    least = 112 if session.key else SHORTEST_REPLY
    return (
        f"{session.name} sends packets too short for any reply, and no reply here is longer than its request: "
        f"let its sender pad them to {least} octets of UDP payload"
    )
