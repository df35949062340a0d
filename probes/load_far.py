"""The far end's half of a UDP load, asked through the control channel: the same calls as `net.load.LoadEnd` has. Floor 4."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError
from linkqual.session.load_phase import Phase
from linkqual.wire.control import text_bytes, unpacked_text
from linkqual.wire.load import ARRIVAL

if TYPE_CHECKING:
    from linkqual.net.control import Control

ROWS = 100_000  # arrivals in one answer


class FarLoad:
    """`opened`: the agent's answer to `load.open`. Every call raises PeerError when the agent refuses or is gone.

    `hurried`: whether the run is to end; a busy agent is waited for until then.
    """

    def __init__(self, control: Control, opened: dict[str, Any], hurried: Callable[[], object] = bool) -> None:
        self._control, self._session, self._hurried = control, opened["session"], hurried
        self.buffer_bytes = int(opened["buffer_bytes"])

    def begin(self, number: int, phase: Phase, window_bytes: int = 0) -> None:
        """See LoadEnd."""
        expiring = phase.expire_at or phase.climbing  # older agents know nothing of it
        more = (
            {name: getattr(phase, name) for name in ("expire_at", "marker_in", "lead", "rung", "climbing")}
            if expiring
            else {}
        )
        self._call(
            "begin",
            **more,
            number=number,
            rate_bps=phase.rate_bps,
            duration_ns=phase.duration_ns,
            packets=phase.packets,
            sizes=[value for pair in phase.sizes for value in pair],
            flows=phase.flows,
            segmented=phase.segmented,
            arrivals=phase.arrivals,
            jitter=phase.jitter,
            interval_ns=phase.interval_ns,
            window_bytes=window_bytes,
        )

    def look(self) -> dict[str, Any]:
        """See LoadEnd."""
        return self._call("look")

    def halt(self) -> None:
        """See LoadEnd."""
        self._call("halt")

    def result(self) -> dict[str, Any]:
        """See LoadEnd."""
        try:
            counts: dict[str, Any] = json.loads(unpacked_text(str(self._call("result")["counts"])))
        except (KeyError, ValueError) as error:
            raise WireError(f"the far end's counts are damaged: {error}") from error
        return counts

    def arrivals(self, first: int, count: int) -> npt.NDArray[np.void]:
        """See LoadEnd; at most ROWS of them."""
        rows = self._call("arrivals", first=first, count=count)["rows"]
        inflate = zlib.decompressobj()
        try:
            octets = inflate.decompress(text_bytes(str(rows)), ROWS * ARRIVAL.itemsize)
            return np.frombuffer(octets, ARRIVAL)
        except (zlib.error, ValueError) as error:
            raise WireError(f"the far end's arrivals are damaged: {error}") from error

    def stop(self) -> dict[str, Any]:
        """See LoadEnd."""
        return self._call("close")

    def _call(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self._control.call(f"load.{do}", hurried=self._hurried, session=self._session, **arguments)
