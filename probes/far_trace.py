"""A trace by the agent, toward this end. Floor 4."""

from __future__ import annotations

from linkqual.errors import PeerError
from linkqual.model import Json, Trace
from linkqual.probes.bench import Bench
from linkqual.wire import trace_json


def ask(bench: Bench, source_port: int, destination_port: int, *, max_hops: int, rounds: int, tos: int = 0) -> Trace:
    """Its trace of the flow from `source_port` there to `destination_port` here, where a Target should answer.

    Raises PeerError when it makes none and WireError when what comes is none. An interruption does not wait for silent hops: it
    gives up this trace, and the connection with it (PeerError of kind "interrupted").
    """
    if bench.control is None:
        raise PeerError("no agent traces back", "start `linkqual agent` at the far end", "no-agent")
    asked: dict[str, Json] = {"source_port": source_port, "destination_port": destination_port}
    asked |= {"max_hops": max_hops, "rounds": rounds} | ({"tos": tos} if tos else {})
    try:
        return trace_json.decode(bench.control.call("trace", hurried=bench.interrupted, **asked))
    except PeerError:
        if bench.interrupted():
            raise PeerError("the trace from the far end was interrupted", kind="interrupted") from None
        raise
