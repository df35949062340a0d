"""Reports: a stored document in, something to read out. Never a socket, never a second measurement. Floor 5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from linkqual.model import Qualification


@dataclass(frozen=True, slots=True)
class Format:
    """A line of the registry. `module.function` is imported when the format is asked for, not before."""

    name: str
    module: str
    function: str
    suffix: str
    title: str

    def render(self, qualification: Qualification, **options: object) -> str:
        """The whole report as text, to be written as UTF-8. `options`: what this format understands (terminal: width ...)."""
        run: Callable[..., str] = getattr(import_module(self.module), self.function)
        return run(qualification, **options)


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("terminal", "linkqual.reports.terminal", "render", ".txt", "the closing table, 100 columns, plain"),
        Format("html", "linkqual.reports.html", "render", ".html", "one self-contained page: screen, phone, print"),
        Format("json", "linkqual.document", "dump", ".json", "the document itself"),
        Format("csv", "linkqual.reports.sheet", "render", ".csv", "one row a finding or figure, base units"),
    )
}


def render(qualification: Qualification, form: str = "terminal", *, width: int = 100, color: bool = False) -> str:
    """A report in one of `FORMATS` (KeyError otherwise); width and colour mean something to the terminal only."""
    if form == "terminal":
        return FORMATS[form].render(qualification, width=width, color=color)
    return FORMATS[form].render(qualification)
