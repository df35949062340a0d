"""Session-Sender packets that take more than a number and a stamp: of several sizes, signed, or counted. Floor 3."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from linkqual.net.departures import Departures
from linkqual.net.messages import Longs
from linkqual.net.outlet import Outlet
from linkqual.net.sender import SenderConfig
from linkqual.session.mix import Mix
from linkqual.session.sender import SenderSession
from linkqual.session.tails import Tails, requests
from linkqual.wire import stamp
from linkqual.wire.stamp import Mode
from linkqual.wire.timestamp import ErrorEstimate
from linkqual.wire.tlv import Type


def templates_of(config: SenderConfig) -> list[npt.NDArray[np.uint8]]:
    """One request of each size, ascending."""
    mode = Mode.AUTHENTICATED if config.key else Mode.UNAUTHENTICATED
    padded = not config.follow_up or config.packet_bytes not in (mode, mode.follow_up_bytes)
    padding = np.random.default_rng(config.seed) if padded else None  # numpy loads its generators on demand
    return [
        stamp.request_template(
            size,
            mode=mode,
            ssid=config.ssid,
            error=ErrorEstimate.of(config.clock_error_ns, synchronised=config.clock_synchronised),
            follow_up=config.follow_up,
            tlvs=requests(config.tlvs, config.dscp),
            padding=padding,
        )
        for size in sorted({size for size, _ in config.mix} or {config.packet_bytes})
    ]


class ElaborateDepartures(Departures):
    """`templates`: one request of each size of `mix`, ascending; one alone without a mix. `filled_bytes`: from there on all is padding.

    Every packet leaves through a block.
    """

    def __init__(
        self,
        outlet: Outlet,
        session: SenderSession,
        templates: Sequence[npt.NDArray[np.uint8]],
        *,
        mix: Mix | None = None,
        key: bytes = b"",
        tails: Tails | None = None,
        filled_bytes: int,
    ) -> None:
        largest = templates[-1]
        super().__init__(outlet, session, largest)
        self._lengths = np.array([len(template) for template in templates])
        self._templates = np.zeros((len(templates), len(largest)), np.uint8)
        for row, template in enumerate(templates):
            self._templates[row, : len(template)] = template
        self._mix, self._key, self._filled = mix, key, filled_bytes
        rows = stamp.sender_rows(self._block.payload, Mode.AUTHENTICATED if key else Mode.UNAUTHENTICATED)
        self._sequences, self._times = rows["sequence"], rows["timestamp"]
        self._first_seq = session.next_seq
        self._counts: npt.NDArray[np.uint32] | None = None
        if tails is not None and tails.asks(Type.DIRECT_MEASUREMENT):
            at = tails.place(Type.DIRECT_MEASUREMENT)
            self._counts = self._block.payload[:, at : at + 4].view(">u4")[:, 0]

    def send_one(self, intended_ns: int, utc_ns: int, now_ns: int) -> None:
        """See Departures."""
        self.send_batch(np.array((intended_ns,)), utc_ns, now_ns)

    def send_batch(self, intended_ns: Longs, utc_ns: int, now_ns: int) -> None:
        """See Departures."""
        kinds = None if self._mix is None else self._mix.kinds(self._session.next_seq, len(intended_ns))
        sizes = None if kinds is None else self._lengths[kinds]
        first = self._session.depart(intended_ns, utc_ns, now_ns, sizes)
        self._push(first, len(intended_ns), utc_ns)

    def _fill(self, first: int, count: int, utc_ns: int) -> None:
        payload = self._block.payload[:count]
        if self._mix is not None:
            kinds = self._mix.kinds(first, count)
            payload[:] = self._templates[kinds]
            self._block.sizes[:count] = self._lengths[kinds]
        super()._fill(first, count, utc_ns)
        if self._counts is not None:  # S_TxC (RFC 8972 s4.5): packets sent, this one too
            self._counts[:count] = np.arange(first, first + count) - self._first_seq + 1
        if self._key:
            from linkqual.wire import stamp_auth  # see session.replies

            stamp_auth.sign_tlvs(payload[:, : self._filled], self._key)
            stamp_auth.sign(payload, self._key)
