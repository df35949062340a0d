"""Flows that differ by their port alone, and so may take different members of a bundle or different paths. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction


@dataclass(frozen=True, slots=True)
class MemberFlow:
    """One flow. Delays are one-way, clock offset included: only those of one round compare, and None where nothing arrived."""

    near_port: int  # its UDP port at the near end: the source port forward, the destination port in reverse
    rounds: tuple[tuple[int, int], ...]  # (sent, received) in each round
    least_ns: tuple[int | None, ...] = ()  # in each quarter of each round
    median_ns: tuple[int | None, ...] = ()

    @property
    def sent(self) -> int:
        """Packets of all rounds."""
        return sum(sent for sent, _ in self.rounds)

    @property
    def lost(self) -> int:
        """Packets of all rounds that did not arrive."""
        return sum(sent - received for sent, received in self.rounds)


@dataclass(frozen=True, slots=True)
class MemberTrace:
    """The routers one flow meets in the direction of the result, nearest to its sender first, the end left out; None: silent."""

    near_port: int
    hops: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class MembersResult:
    """The flows of one direction, sent in turn, all alike but for the near end's port."""

    direction: Direction
    flows: tuple[MemberFlow, ...]
    near_address: str
    far_address: str
    far_port: int  # UDP
    packet_bytes: int  # of each IP packet
    rate_bps: int  # of all flows together, at the IP layer
    host_lost: int = 0  # dropped by the receiving host's own socket, of whichever flow
    traces: tuple[MemberTrace, ...] = ()  # a flow that was traced again has two
    traces_short: str = ""  # why fewer flows were traced than a second path would need to be met; "" when enough
    short: str = ""  # why a round was not sent whole: "interrupted", "peer-lost", "cap", ...; "" when all were
