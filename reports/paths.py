"""How long a packet may be, and flows that fare differently, as the page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linkqual.model import MembersResult, MtuTcp, MtuWay, Qualification
from linkqual.rules.members import tuples
from linkqual.session import members, mtu, routes
from linkqual.session.members import Found, Group
from linkqual.session.routes import Parting

KINDS = {
    "whole": "all that the sender's interface takes",
    "told": "longer ones are told of by ICMP",
    "black hole": "longer ones vanish without a word",
    "unknown": "not known",
}


@dataclass(frozen=True, slots=True)
class Size:
    """One direction of the path MTU."""

    way: MtuWay
    tcp: MtuTcp | None

    @property
    def words(self) -> str:
        """What became of longer packets."""
        return f"{KINDS[self.way.kind]}{': ' + self.way.because if self.way.because else ''}"

    @property
    def where(self) -> str:
        """ "hop 2 – hop 3", with the router that says so; "" where there is no limit."""
        found = mtu.place(self.way.hops)
        if self.way.told_by is not None:
            hop = next((f"hop {hop.ttl}, " for hop in self.way.hops if hop.address == self.way.told_by), "")
            return f"{hop}{self.way.told_by}"
        if found is None or self.way.kind != "black hole":
            return ""
        return f"{f'hop {found.before.ttl}' if found.before else 'sender'} – {f'hop {found.after.ttl}' if found.after else 'receiver'}"


@dataclass(frozen=True, slots=True)
class Flows:
    """One direction of the flows that differ by a port alone."""

    result: MembersResult
    found: Found

    @property
    def groups(self) -> list[tuple[Group, str]]:
        """(flows that fare worse, their 5-tuples)."""
        return [(group, tuples(self.result, group.ports)) for group in self.found.groups]

    @property
    def traced(self) -> int:
        """Flows whose routers were looked at."""
        return len({trace.near_port for trace in self.result.traces})

    @property
    def parting(self) -> Parting | None:
        """Where flows meet other routers."""
        return routes.parting(self.result.traces)

    @property
    def routed(self) -> list[tuple[str, int, str]]:
        """(router, how many flows go by it, their 5-tuples) at the hop where flows part; most flows first."""
        found = self.parting
        return [(address, len(ports), tuples(self.result, ports)) for address, ports in found.ways] if found else []


def sizes(q: Qualification) -> list[Size]:
    """One a direction."""
    return [
        Size(way, next((tcp for tcp in one.tcp if tcp.direction is way.direction), None))
        for one in (m.mtu for m in q.measurements if m.mtu)
        for way in one.ways
    ]


def flows(q: Qualification) -> list[Flows]:
    """One a direction."""
    return [Flows(one, members.read(one)) for one in (m.members for m in q.measurements if m.members)]


def section(q: Qualification) -> dict[str, Any]:
    """What the template paths.html asks for."""
    return {"sizes": sizes(q), "flows": flows(q)}
