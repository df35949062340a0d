"""The two ends of a measurement, found: with our agent at the far one, or a reflector of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkqual.cli.reflecting import Foreign
    from linkqual.net.control import Control
    from linkqual.probes.bench import Reflector


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of the measurement, found."""

    name: str  # of the far one
    peer_address: str
    near_address: str
    control: Control | None = None
    reflector: Reflector | None = None


def with_agent(control: Control, name: str) -> Ends:
    """Our agent, already connected."""
    return Ends(name, control.peer_address, control.near_address, control)


def without_agent(foreign: Foreign) -> Ends:
    """A reflector of others. Raises PeerError when there is no way to it."""
    from linkqual.net.addresses import way_to
    from linkqual.probes.bench import Reflector

    near, far = way_to(foreign.host, foreign.port)
    return Ends(foreign.name, far, near, reflector=Reflector(foreign.port, foreign.key))
