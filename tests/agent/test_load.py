"""Loads at the agent: within the caps, to the near end only, and gone with the session."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from linkqual.agent.config import Caps
from linkqual.errors import PeerError
from linkqual.net.control import Control
from linkqual.wire.load import Told

pytestmark = pytest.mark.loopback

S = 10**9
PHASE = {
    "number": 1, "rate_bps": 8_000_000, "duration_ns": 60 * S, "packets": 0, "sizes": [500, 1], "flows": 1, "segmented": True,
    "arrivals": False, "jitter": 0, "interval_ns": S,
}  # fmt: skip


def refused(control: Control, name: str, **args: Any) -> PeerError:
    with pytest.raises(PeerError) as caught:
        control.call(name, **args)
    return caught.value


def test_what_is_over_a_cap_or_makes_no_sense_is_refused(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(caps=Caps(max_bytes=10**6, max_seconds=100, max_bps=10**7))
    with Control.connect(agent.peer) as control:
        assert refused(control, "load.look", session="none").kind == "state"
        name = control.call("load.open", direction="reverse", longest=472)["session"]
        for change, kind, says in (
            ({"rate_bps": 10**8, "duration_ns": S // 100}, "cap", "--max-bps"),
            ({"duration_ns": 200 * S, "rate_bps": 8}, "cap", "--max-seconds"),
            ({}, "cap", "--max-bytes"),
            ({"rate_bps": 0, "packets": 3000}, "cap", "--max-bytes"),  # at the agent's own rate
            ({"flows": 2}, "bad-request", ""),
            ({"sizes": [1500, 1]}, "bad-request", ""),
            ({"sizes": [500]}, "bad-request", ""),
            ({"duration_ns": 0}, "bad-request", ""),
        ):
            error = refused(control, "load.begin", **PHASE | {"session": name} | change)
            assert error.kind == kind, change
            assert says in error.hint
        assert refused(control, "load.arrivals", session=name, first=0, count=1).kind == "state"
        control.call("load.close", session=name)
        assert refused(control, "load.close", session=name).kind == "state"


def test_the_agent_sends_to_who_greets_and_not_a_second_longer_than_the_session_lasts(agent: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
        near.bind(("127.0.0.1", 0))
        near.settimeout(2)
        with Control.connect(agent.peer) as control:
            opened = control.call("load.open", direction="reverse", longest=472)
            far = ("127.0.0.1", opened["port"])
            near.sendto(Told(opened["token"] ^ 1, 0, 0).encode(), far)  # no greeting of this session
            control.call("load.begin", session=opened["session"], **PHASE)
            time.sleep(0.1)
            assert control.call("load.look", session=opened["session"])["sent"] == 0
            near.sendto(Told(opened["token"], 0, 0).encode(), far)
            assert near.recvfrom(2000)[1] == far
        ended = time.monotonic()
        near.settimeout(0.4)
        while heard(near) and time.monotonic() < ended + 5:
            pass
        assert time.monotonic() < ended + 2  # a second, and the silence that shows it


BURSTS = {
    "direction": "forward", "bursts": 10, "packets": 50, "packet_bytes": 472, "flows": 1, "gap_ns": 1e6, "period_ns": S // 10,
    "quiet_ns": 10**6, "patience_ns": S, "overlap": False, "most_repeats": 0,
}  # fmt: skip


def test_what_runs_at_the_same_time_shares_the_cap_on_bytes(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(caps=Caps(max_bytes=10**6, max_seconds=100))
    with Control.connect(agent.peer) as control:
        one, other = (control.call("load.open", direction="reverse", longest=472)["session"] for _ in range(2))
        phase = PHASE | {"packets": 1600}  # 800 kB
        control.call("load.begin", **phase, session=one)
        assert refused(control, "load.begin", **phase, session=other).kind == "cap"
        assert refused(control, "bursts.open", **BURSTS).kind == "cap"  # 250 kB
        control.call("load.close", session=one)  # nobody greeted, so nothing has left
        bursts = control.call("bursts.open", **BURSTS)["session"]
        assert refused(control, "load.begin", **phase, session=other).kind == "cap"
        assert "--max-seconds" in refused(control, "bursts.start", session=bursts, period_ns=20 * S).hint
        control.call("bursts.close", session=bursts)
        control.call("load.begin", **phase, session=other)


def test_bytes_that_leave_after_an_early_result_count_as_well(start_agent: Callable[..., Any]) -> None:
    agent = start_agent(caps=Caps(max_bytes=10**6, max_seconds=100))
    phase = PHASE | {"packets": 1600, "rate_bps": 80_000_000}  # 80 ms
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near, Control.connect(agent.peer) as control:
        near.bind(("127.0.0.1", 0))
        opened = control.call("load.open", direction="reverse", longest=472)
        control.call("load.begin", **phase, session=opened["session"])
        near.sendto(Told(opened["token"], 0, 0).encode(), ("127.0.0.1", opened["port"]))
        control.call("load.result", session=opened["session"])
        until = time.monotonic() + 5
        while not control.call("load.look", session=opened["session"])["ended_by"] and time.monotonic() < until:
            time.sleep(0.02)
        control.call("load.close", session=opened["session"])
        again = control.call("load.open", direction="reverse", longest=472)
        assert refused(control, "load.begin", **PHASE | {"packets": 500}, session=again["session"]).kind == "cap"


def heard(near: socket.socket) -> bool:
    with suppress(TimeoutError):
        return bool(near.recv(2000))
    return False
