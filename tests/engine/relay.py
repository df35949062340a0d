"""Someone between a sender and a reflector on loopback, who loses or changes what passes."""

from __future__ import annotations

import select
import socket
import threading
from typing import Self


class Relay:
    """Between one sender, who sends to `port`, and the reflector at `far_port`. Passes everything; `request` and `reply` may do otherwise."""

    def __init__(self, far_port: int) -> None:
        self.near, self.far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.near.bind(("127.0.0.1", 0))
        self.far.connect(("127.0.0.1", far_port))
        self.port = self.near.getsockname()[1]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def request(self, data: bytes, number: int) -> bytes | None:
        """What goes on in place of the how many-th packet there; None: nothing."""
        return data

    def reply(self, data: bytes, number: int) -> bytes | None:
        """The same on the way back."""
        return data

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self.near.close()
        self.far.close()

    def _pass_on(self) -> None:
        there = back = 0
        sender = None
        while not self._ending.is_set():
            for one in select.select([self.near, self.far], [], [], 0.05)[0]:
                data, peer = one.recvfrom(9000)
                if one is self.near:
                    sender, there = peer, there + 1
                    if (passed := self.request(data, there - 1)) is not None:
                        self.far.send(passed)
                elif sender is not None:
                    back += 1
                    if (passed := self.reply(data, back - 1)) is not None:
                        self.near.sendto(passed, sender)
