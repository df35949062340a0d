"""The shipped profiles: YAML beside this file, read through importlib.resources so that they come with the wheel."""

from __future__ import annotations

from importlib.resources import files

from linkqual.errors import UsageError


def names() -> tuple[str, ...]:
    """Names of the shipped profiles, sorted."""
    entries = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))


def text(name: str) -> str:
    """The YAML of one shipped profile; UsageError names those there are."""
    if name not in names():
        raise UsageError(f"no shipped profile is called {name!r}", f"shipped: {', '.join(names())}; or give a file")
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
