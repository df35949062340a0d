"""`report.html`: one self-contained page. No script, no font, no picture from elsewhere; a policy in its head forbids them.

Everything that came from outside (names, messages, addresses) is escaped by the template engine and made inert first.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from linkqual import units
from linkqual.metrics import METRICS
from linkqual.model import Direction, Outcome, Qualification
from linkqual.reports import wording
from linkqual.reports.inert import inert
from linkqual.reports.sections import sections


def render(q: Qualification) -> str:
    """The page as a string to be written as UTF-8."""
    page: str = _environment().get_template("report.html").render(q=q, **sections(q))
    return page


def _finalize(value: Any) -> Any:
    """Every value on its way into the page: controls and bidi overrides shown, markup of our own left alone."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return inert(value)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("linkqual.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": units.format_duration,
        "rate": units.format_rate,
        "signed_rate": lambda bps: f"{'−' if bps < 0 else '+'}{units.format_rate(abs(bps))}",
        "ratio": units.format_ratio,
        "count": units.format_count,
        "packet_sizes": wording.packet_sizes,
        "size": units.format_size,
        "pps": units.format_packet_rate,
        "moment": wording.moment_words,
        "metric": wording.metric_title,
        "limit": wording.limit_words,
        "interval": wording.interval_words,
        "value": wording.value_words,
        "sample": wording.sample_words,
        "sign": wording.SIGNS.__getitem__,
        "arrow": wording.ARROWS.__getitem__,
        "readable": wording.readable_name,
        "prose": _prose,
        "foldable": lambda text: Markup(str(escape(inert(text))).replace(":", ":<wbr>")),  # noqa: S704
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    environment.globals |= {
        "METRICS": METRICS,
        "Direction": Direction,
        "Outcome": Outcome,
        "zip": zip,
        "named_value": wording.named_value,
    }
    return environment


_CODE = re.compile(r"`([^`<>]+)`")  # a command in a sentence
_QUANTITY = re.compile(
    r"\d[\d,.]*(?:e-?\d+| (?:[kMGT]?(?:bit/s|B|pps)|ns|µs|ms|s|min|h|d|%)(?![\w]))(?: \d+ (?:s|min|h)(?![\w]))?"
)


def _prose(text: str) -> Markup:
    """A sentence of the document, escaped, with every quantity kept on one line and commands set as such."""
    shown = _CODE.sub(r"<code>\1</code>", str(escape(inert(text))))
    shown = _QUANTITY.sub(r'<span class="q">\g<0></span>', shown)
    return Markup(shown)  # noqa: S704  # escaped one step before; the elements add no text of others
