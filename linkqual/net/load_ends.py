"""The UDP sockets of a load at one end, whichever way it goes. Floor 3.

    near end   one socket a flow, each connected to the far end's port: its source port is the flow
    far end    one socket; where a flow's packets go is learnt from what came from that flow, never from an argument

Small words (`wire.load.Told`) go against the load: they open the way through firewalls and address translation, and tell the sender
what has arrived without asking anything of a control channel that may be stuck behind the load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError
from linkqual.net.clock import utc_ns
from linkqual.net.messages import NAME_BYTES, MessageBlock, Octets
from linkqual.net.sockets import StampedSocket, address_octets
from linkqual.wire.load import TOLD_BYTES, Told

_ROWS = 32
Name = bytes  # a socket address as the kernel wrote it


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """One end of a load. `port` at the near end: of the first flow, the others have the next ones; 0: any free ones. `peer_port` 0 at the far end, which learns where the flows are."""

    token: int
    peer_address: str
    flows: int
    longest: int  # octets of UDP payload
    bind_address: str = ""
    port: int = 0
    peer_port: int = 0
    dscp: int = 0
    max_bytes: int = 1 << 62  # that may leave, IP layer
    silence_ns: int = 0  # a sender that hears nothing for so long ends; 0: it goes on
    receive_buffer_bytes: int = 64 << 20


class Ends:
    """`sockets`: one, or one a flow. A flow's address is None where its socket is connected."""

    def __init__(self, config: LoadConfig) -> None:
        """Raises HostError and PeerError."""
        self._config = config
        self.far = not config.peer_port
        count = 1 if self.far else config.flows
        buffer = config.receive_buffer_bytes // count
        peer = None if self.far else (config.peer_address, config.peer_port)
        self.sockets: list[StampedSocket] = []
        try:
            for number in range(count):
                self.sockets.append(
                    StampedSocket(
                        config.bind_address, config.port + number if config.port else 0, peer=peer, buffer_bytes=max(buffer, 1 << 20),
                        dscp=config.dscp, departures=False,
                    )
                )  # fmt: skip
        except BaseException:
            self.close()
            raise
        self._peer = np.frombuffer(address_octets(config.peer_address if self.far else self.sockets[0].peer), np.uint8)
        self._at = 4 if len(self._peer) == 4 else 8  # where an address begins in its sockaddr
        self._name_bytes = 16 if len(self._peer) == 4 else NAME_BYTES
        self.names: list[Name | None] = [None] * config.flows
        self._block = MessageBlock(_ROWS, TOLD_BYTES + 1, named=True)
        self._told = 0

    @property
    def ip_version(self) -> int:
        """4 or 6."""
        return 4 if len(self._peer) == 4 else 6

    @property
    def ready(self) -> bool:
        """Whether every flow's way is known."""
        return not self.far or None not in self.names

    def socket_of(self, flow: int) -> StampedSocket:
        """Which one this flow leaves from."""
        return self.sockets[0] if self.far else self.sockets[flow]

    def from_peer(self, names: Octets) -> npt.NDArray[np.bool_]:
        """Which of these addresses, shape (n, NAME_BYTES), are the peer's; shape (n,)."""
        at = self._at
        same: npt.NDArray[np.bool_] = (names[:, at : at + len(self._peer)] == self._peer).all(axis=1)
        return same

    def learn(self, flow: int, name: Octets) -> None:
        """Where a flow is, at the far end."""
        if self.far and flow < len(self.names):
            self.names[flow] = name[: self._name_bytes].tobytes()

    def tell(self, told: Told, flow: int = 0) -> None:
        """One word to the peer, by the flow's way; nothing happens where that is not known."""
        octets = told.encode()
        if not self.far:
            self.sockets[flow].send(octets)
            return
        name = self.names[flow]
        if name is not None:
            block = self._block
            block.payload[0, : len(octets)] = np.frombuffer(octets, np.uint8)
            block.sizes[0] = len(octets)
            block.names[0, : len(name)] = np.frombuffer(name, np.uint8)
            block.name_lengths[0] = len(name)
            block.without_numbers(0, 1)
            block.send(self.sockets[0].descriptor, 0, 1)

    def greet(self, count: int) -> None:
        """A word of no phase from every flow of the near end."""
        for flow in range(0 if self.far else self._config.flows):
            self.tell(Told(self._config.token, 0, flow, count, utc_ns()), flow)

    def hear(self) -> Iterator[Told]:
        """The peer's words that are there. Strangers' are dropped."""
        for each in self.sockets:
            while True:
                count = each.receive(self._block)
                rows = np.flatnonzero(self.from_peer(self._block.names[:count])) if self.far else range(count)
                for row in rows:
                    data = self._block.payload[row, : int(self._block.lengths[row])].tobytes()
                    try:
                        told = Told.decode(data)
                    except WireError:
                        continue
                    if told.token == self._config.token:
                        self.learn(told.flow, self._block.names[row])
                        yield told
                if count < self._block.count:
                    break

    def dropped(self) -> int:
        """Packets lost to full buffers of these sockets."""
        return sum(each.dropped() for each in self.sockets)

    def close(self) -> None:
        """Idempotent."""
        for each in self.sockets:
            each.close()
