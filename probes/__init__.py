"""The registry of probes: a probe is one module with `measure(step, bench) -> Measurement` and one line here. Floor 4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from linkqual.model import Measurement, Step
from linkqual.probes.bench import Bench


@dataclass(frozen=True, slots=True)
class Probe:
    """A line of the registry. `module` is imported when the probe runs, not before."""

    name: str
    module: str
    title: str
    needs: str

    def measure(self, step: Step, bench: Bench) -> Measurement:
        """Run the probe; what the line or the peer does is in the Measurement, never an exception."""
        run: Callable[[Step, Bench], Measurement] = import_module(self.module).measure
        return run(step, bench)


PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        Probe("stamp", "linkqual.probes.stamp", "delay, jitter and loss, both directions (RFC 8762)", "an agent"),
        Probe("ping", "linkqual.probes.ping", "ICMP echo as a cross-check", "the ping program"),
        Probe(
            "throughput",
            "linkqual.probes.throughput",
            "TCP goodput, both directions (iperf3)",
            "an agent, iperf3 at both ends",
        ),
        Probe(
            "path",
            "linkqual.probes.path",
            "forward and reverse trace of one flow",
            "an agent; raw sockets for TTLs",
        ),
        Probe(
            "mtu",
            "linkqual.probes.mtu",
            "longest packet that arrives, both directions, UDP and TCP; black holes (RFC 4821)",
            "an agent",
        ),
        Probe(
            "members",
            "linkqual.probes.members",
            "lossy or slow members of a bundle: many flows that differ by a port alone",
            "an agent",
        ),
        Probe(
            "marking",
            "linkqual.probes.marking",
            "which DSCP and ECN values arrive, both directions (RFC 8972)",
            "an agent",
        ),
        Probe(
            "trains",
            "linkqual.probes.trains",
            "policer or shaper: rate, bucket and queue, each direction",
            "an agent",
        ),
        Probe(
            "flows",
            "linkqual.probes.flows",
            "one UDP flow against many: a limit of each flow, or members of a bundle",
            "an agent",
        ),
        Probe(
            "narrow",
            "linkqual.probes.narrow",
            "the narrowest hop, each direction, by load that expires on routers",
            "an agent, consent",
        ),
        Probe(
            "gentle",
            "linkqual.probes.gentle",
            "where a queue begins, each direction, by a load a little above the rate and one probe a second to each hop",
            "an agent",
        ),
        Probe(
            "bursts",
            "linkqual.probes.bursts",
            "completion of training bursts, both directions at once",
            "an agent",
        ),
        Probe(
            "services",
            "linkqual.probes.services",
            "services at their rates: configuration and performance test (ITU-T Y.1564)",
            "an agent",
        ),
        Probe(
            "search",
            "linkqual.probes.search",
            "highest rate within a loss goal, per frame size (RFC 2544)",
            "an agent, a line not in service",
        ),
    )
}
