"""The one command line that `test`, `path`, `measure` and `plan` have in common, declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from linkqual.cli import options
from linkqual.cli.qualifying import Asked

_LINK_FACTS = ("name", "vendor", "cir", "cir_reverse", "mtu", "rtt_budget")
_SHARED: dict[str, tuple[Any, Any]] = {
    "peer": (options.Peer, None),
    "profile": (options.ProfileName, "training"),
    "line": (options.Line, None),
    "token": (options.Token, None),
    "cert": (options.Pin, None),
    "reflector": (options.Reflector, None),
    "reflector_key": (options.ReflectorKey, None),
    "link": (options.LinkFile, None),
    "name": (options.Name, None),
    "vendor": (options.Vendor, None),
    "cir": (options.Cir, None),
    "cir_reverse": (options.CirReverse, None),
    "mtu": (options.Mtu, None),
    "rtt_budget": (options.RttBudget, None),
    "not_in_service": (options.NotInService, False),
    "rate": (options.Rate, None),
    "packets": (options.Packets, None),
    "duration": (options.Duration, None),
    "streams": (options.Streams, None),
    "quick": (options.Quick, False),
    "max_rate": (options.MaxRate, None),
    "max_bytes": (options.MaxBytes, None),
    "duty": (options.Duty, None),
    "allow_expiring_load": (options.ExpiringLoad, False),
    "only": (options.Only, None),
    "skip": (options.Skip, None),
    "as_json": (options.AsJson, False),
}
_MEASURING: dict[str, tuple[Any, Any]] = {
    "output": (options.Folder, None),
    "zone": (options.Zone, "UTC"),
    "calibration": (options.Calibration, True),
    "yes": (options.Yes, False),
}


def asks(
    *, measuring: bool, profile: str = "training", without: tuple[str, ...] = ()
) -> Callable[[Callable[[Asked], int]], Callable[..., None]]:
    """Give a verb the shared options, gathered into one `Asked`; what it returns becomes the exit code.

    `profile`: the one it has by default; `without`: options that mean nothing to it, left as `Asked` has them.
    """
    wanted = _SHARED | (_MEASURING if measuring else {}) | {"profile": (options.ProfileName, profile)}
    wanted = {key: kind for key, kind in wanted.items() if key not in without}

    def decorate(verb: Callable[[Asked], int]) -> Callable[..., None]:
        @functools.wraps(verb)
        def run(**given: Any) -> None:
            import typer

            facts = tuple((key, given.pop(key)) for key in _LINK_FACTS)
            facts += (("in_service", "false" if given.pop("not_in_service") else None),)
            for key in ("only", "skip"):
                given[key] = tuple(given[key] or ())
            raise typer.Exit(verb(Asked(link_facts=facts, **given)))

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads options from it
            [
                inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
                for key, (kind, default) in wanted.items()
            ]
        )
        run.__annotations__ = {key: kind for key, (kind, _default) in wanted.items()}
        return run

    return decorate
