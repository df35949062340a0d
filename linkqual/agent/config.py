"""What the owner of the far end allows. Floor 5."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from linkqual.errors import PeerError, UsageError
from linkqual.wire.control import DEFAULT_PORT

REFLECTOR_PORTS = (4863, 4894)
IPERF3_PORTS = (5201, 5232)


@dataclass(frozen=True, slots=True)
class Caps:
    """The most a near end may ask for. What is over is refused with the cap's name, never quietly cut down."""

    max_pps: int = 500_000  # packets per second of the reflector
    max_bytes: int = 10**13  # of one session, probes and loads, both directions
    max_seconds: int = (
        25 * 3600
    )  # of one reflector, one iperf3 test or one phase of load: a day, and what a stream beside it needs around
    max_sessions: int = 1
    max_bps: int = 10**12  # of one load that the agent sends, bits a second at the IP layer

    def __post_init__(self) -> None:
        """Refuse caps that allow nothing."""
        for name in ("max_pps", "max_bytes", "max_seconds", "max_sessions", "max_bps"):
            if getattr(self, name) < 1:
                raise UsageError(
                    f"{name} is {getattr(self, name)}: a cap is at least 1", "to allow nothing, run no agent"
                )

    def allow(self, name: str, asked: int, what: str) -> None:
        """PeerError of kind `cap` when `asked` is over the cap called `name`."""
        cap: int = getattr(self, name)
        if asked > cap:
            option = f"--{name.replace('_', '-')}"
            raise PeerError(
                f"{asked:,} {what} are over the agent's cap of {cap:,}",
                f"ask for less, or start the agent with {option} {asked}",
                "cap",
            )


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How an agent listens. Port ranges are inclusive; the firewall must let both through (reflector UDP, iperf3 TCP)."""

    bind_address: str = ""  # "": every address, IPv4 and IPv6
    port: int = DEFAULT_PORT  # 0: any free one
    token: str | None = field(default=None, repr=False)  # None: LINKQUAL_TOKEN, else made at start
    directory: Path | None = None  # where the certificate is kept; None: ~/.config/linkqual/agent
    ephemeral: bool = False  # a certificate for this run only, in memory
    name: str = ""  # the host in the pairing line; "": the address bound to, else a guess
    caps: Caps = field(default_factory=Caps)
    reflector_ports: tuple[int, int] = REFLECTOR_PORTS
    iperf3_ports: tuple[int, int] = IPERF3_PORTS
    hello_s: float = 10.0  # from the first SYN to a proven token
    refusal_s: float = 1.0  # before a wrong token is told so
    idle_s: float = 600.0  # without a request and with nothing running
    lost_s: float = 60.0  # without a sign of life from the near end's host
    max_waiting: int = 128  # connections not yet recognised
    max_waiting_each: int = 32  # of them from one address

    def __post_init__(self) -> None:
        """Refuse ranges and ports that are none."""
        for low, high in (self.reflector_ports, self.iperf3_ports):
            if not 1 <= low <= high <= 65535:
                raise UsageError(f"{low}-{high} is no range of ports", "write it as LOW-HIGH, between 1 and 65535")
        if not 0 <= self.port <= 65535:
            raise UsageError(f"{self.port} is no port", "a port lies between 1 and 65535")

    def home(self) -> Path:
        """Where the certificate and its key are kept."""
        if self.directory is not None:
            return self.directory
        configured = os.environ.get("XDG_CONFIG_HOME") or ""
        root = Path(configured) if Path(configured).is_absolute() else Path.home() / ".config"
        return root / "linkqual" / "agent"
