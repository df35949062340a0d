"""A far end without our agent: the reflector that --reflector names, and the key it shares with us."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from linkqual.errors import UsageError

_WHERE = "write it as HOST, HOST:PORT or [IPV6]:PORT"
_KEY_HINT = "give a file with the key in hex, such as 64 digits of 0 to 9 and a to f, or the digits themselves"


@dataclass(frozen=True, slots=True)
class Foreign:
    """Where a reflector that is not ours listens. `key`: of authenticated STAMP, empty without."""

    host: str
    port: int
    key: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> str:
        """For people and for the document."""
        from linkqual.wire.pairing import join_host_port

        return f"reflector {join_host_port(self.host, self.port)}"


def read(where: str | None, key: str | None) -> Foreign | None:
    """What --reflector and --reflector-key say; None without. Raises UsageError."""
    from linkqual.wire.pairing import host_and_port
    from linkqual.wire.stamp import PORT

    if where is None:
        if key:
            raise UsageError("--reflector-key is given, but no reflector", hint="name it with --reflector HOST[:PORT]")
        return None
    return Foreign(*host_and_port(where.strip(), PORT, _WHERE), _key(key) if key else b"")


def _key(text: str) -> bytes:
    what = "what --reflector-key says"
    try:
        if os.path.isfile(text):  # pathlib raises for a key too long to be a name
            what, text = text, Path(text).read_text(encoding="ascii")
        key = bytes.fromhex(text.strip())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "is no key in hex"
        raise UsageError(f"{what}: {why}", hint=_KEY_HINT) from None
    if not key:
        raise UsageError("the key of --reflector-key is empty", hint=_KEY_HINT)
    return key
