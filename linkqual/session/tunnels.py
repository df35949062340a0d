"""Hints of MPLS tunnels in one trace (Donnet, Luckie, Mérindol, Pansiot: Revealing MPLS tunnels obscured from traceroute, 2012). Floor 2, pure.

    explicit   routers inside quote their labels (RFC 4950)
    implicit   they quote none, but the TTL of the quoted probe grows: 2, 3, 4 behind the first one
    opaque     one label at the end of the tunnel, whose own TTL tells how many routers before it were hidden
    hidden     nothing of that; answers from behind it come back over more hops than lead there: the weakest hint

Hints only: a router may quote a wrong TTL, and a way back may be longer by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from linkqual.model import Hop

_LABEL_TTL = re.compile(r"\bttl=(\d+)$")
_PIPE_TTL = 255  # what a label starts with where TTLs are not copied into it
_MOST_HIDDEN = 30


def return_hops(hop: Hop) -> int | None:
    """How many hops a router's answer took to come back, guessed from its TTL: senders start at 32, 64, 128 or 255."""
    if hop.reply_ttl is None:
        return None
    return min(start for start in (32, 64, 128, 255) if start >= hop.reply_ttl) - hop.reply_ttl + 1


def inside(hops: Sequence[Hop]) -> tuple[int, ...]:
    """TTLs of routers that show themselves to stand in a tunnel: by labels, or by a quoted TTL above 1."""
    return tuple(hop.ttl for hop in hops if not hop.reached and (hop.labels or (hop.quoted_ttl or 1) > 1))


def hints(hops: Sequence[Hop]) -> Iterator[str]:
    """A sentence for each kind that shows."""
    routers = [hop for hop in hops if not hop.reached]
    labelled = [hop for hop in routers if hop.labels]
    opaque = {hop.ttl: hidden for hop in labelled if (hidden := _hidden(hop))}
    explicit = [hop.ttl for hop in labelled if hop.ttl not in opaque]
    if explicit:
        yield f"{_places(explicit)} in an MPLS tunnel and quote their labels"
    for ttl, hidden in opaque.items():
        yield f"hop {ttl} ends an MPLS tunnel whose label has lost {hidden} of its TTL: about {hidden} routers before it may be hidden (a hint)"
    implicit = [hop.ttl for hop in routers if not hop.labels and (hop.quoted_ttl or 1) > 1]
    if implicit:
        yield (
            f"{_places(implicit)} where probes arrive with more TTL than was left to them: an MPLS tunnel whose routers tell no labels, "
            "or routers that quote a wrong TTL (a hint)"
        )


def hidden(hops: Sequence[Hop]) -> str:
    """Where answers begin to come back over at least two hops more than lead there; "" where they do not, or nothing shows their TTL."""
    lengths = [(hop.ttl, back) for hop in hops if not hop.reached and (back := return_hops(hop)) is not None]
    before, earlier = 0, 0
    for ttl, back in lengths:
        more = (back - ttl) - (earlier - before)
        if 2 <= more <= _MOST_HIDDEN:
            return (
                f"answers from hop {ttl} on come back over {more} hops more than lead there: a longer way back, "
                f"or a tunnel before hop {ttl} that hides routers (a hint)"
            )
        before, earlier = ttl, back
    return ""


def _hidden(hop: Hop) -> int:
    """How many routers the TTL of a lone label says were passed inside the tunnel; 0: not such a label."""
    found = _LABEL_TTL.search(hop.labels[0])
    lost = _PIPE_TTL - int(found.group(1)) if found else 0
    return lost if 0 < lost <= _MOST_HIDDEN else 0


def _places(ttls: Sequence[int]) -> str:
    many = len(ttls) > 1
    row = many and list(ttls) == list(range(ttls[0], ttls[-1] + 1))
    named = f"{ttls[0]} to {ttls[-1]}" if row else ", ".join(map(str, ttls))
    return f"hop{'s' * many} {named} stand{'s' * (not many)}"
