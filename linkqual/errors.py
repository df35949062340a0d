"""Everything linkqual raises on purpose, and the exit codes a shell sees.

    LinkqualError                     the request is wrong or this host cannot do it; always carries a hint
    ├── UsageError            2       a command line that contradicts itself or names what is not there
    ├── InputError            2       a file we were given is wrong: file, line, key, what is allowed
    │   └── WireError                 bytes that are no packet of the kind asked for (a session turns it into a counter)
    ├── HostError             4       this host lacks a program, a right or room (disk, memory, buffers)
    └── PeerError             4       the far end cannot be reached, refuses, or went away

Exit codes of every verb that judges:
    0 pass    1 fail    2 usage or profile error    3 inconclusive    4 no data / could not measure
and 130 / 143 when a signal (Ctrl-C / TERM) ended the run; what was measured until then is kept.

The line misbehaving is data, never an exception. A step that could not be measured is a `Fault` on its Measurement.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees; the table is in this module's head."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    NO_DATA = 4


class LinkqualError(Exception):
    """A request that cannot be served. `message` is one line; `hint` says what to do next."""

    exit_code = ExitCode.NO_DATA

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LinkqualError):
    """The command line contradicts itself or names something that does not exist."""

    exit_code = ExitCode.USAGE


class InputError(LinkqualError):
    """A given file or value is wrong. `where` is `file:line: key` as far as known."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, hint: str = "", where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message, hint)
        self.where = where


class WireError(InputError):
    """Bytes that are not a packet or message of the kind asked for."""


class HostError(LinkqualError):
    """This host lacks a program, a capability or room."""


AFTER_LOSS = {  # what to do once the far end is gone, by kind of PeerError
    "peer-lost": "see what the agent wrote, and run again",
    "silent": "either the line between was cut or the host there stopped: see whether the line is up and what the agent wrote, and run again",
}


class PeerError(LinkqualError):
    """The far end cannot be reached, refuses us, or went away. `kind` is the kind of `model.Fault` it makes of a step."""

    def __init__(self, message: str, hint: str = "", kind: str = "peer-lost") -> None:
        super().__init__(message, hint)
        self.kind = kind
