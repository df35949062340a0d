"""Is it loss: does the line lose packets by itself, so that TCP never gets up to speed? Mathis et al. 1997; RFC 9438 section 5.1. Pure."""

from __future__ import annotations

from linkqual.model import ThroughputResult
from linkqual.rules import loads, words
from linkqual.rules.why.facts import Facts, Idle
from linkqual.rules.why.reading import Fit, Lines, Reading, refuted, unseen
from linkqual.stats import load_rates
from linkqual.stats.throughput import RENO, cubic, mathis
from linkqual.units import NS_PER_S, format_count, format_duration, format_rate, format_ratio

LOOK = "run `linkqual test --only stamp`: losses of a line that is not loaded tell"
NEAR = (0.4, 1.6)  # of the formulas' rate: delayed ACKs, timeouts and clustered losses move the real one that far
LEAST_EVENTS, SURE_EVENTS = 3, 10
MORE = 1.15
CLEAN = 0.01  # loss of a UDP load up to which it shows that the line carries it


def readings(facts: Facts) -> list[Reading]:
    """Of loss."""
    rtt, mss, idle = facts.rtt_ns, facts.load.mss, facts.idle
    if idle is None or rtt is None or mss is None:
        what = "no packet stream beside idle" if idle is None else "TCP told no round trip or segment size"
        tried = idle is None and "stamp" in facts.tried
        said = facts.in_vain("stamp") if tried else what
        return [
            Reading("loss", Fit.UNSEEN, said, decide=facts.look("stamp", LOOK) if idle is None else "", tried=tried)
        ]
    if idle.events < LEAST_EVENTS:
        return [_few(facts, idle, rtt, mss)]
    few = facts.ladder[0]
    fits = _near(facts.load, idle, rtt, mss)
    fits_few = few is not facts.load and few.rtt_mean_ns is not None and _near(few, idle, few.rtt_mean_ns, mss)
    figure = _figure(facts.load, idle.rate[0], rtt, mss)
    if not fits and not fits_few:
        said = f"{_lost(idle)} would leave about {format_rate(figure)} a stream, and {format_rate(facts.each)} were measured"
        return [refuted("loss", said)]
    more = _line_carries(facts, facts.load if fits else few)
    evidence = (("packets of an idle line", _lost(idle)), *_formulas(facts, idle, rtt, mss), *more, *_bbr(facts))
    proven = bool(more) and idle.events >= SURE_EVENTS
    lost, left = _lost(idle), format_rate(figure)
    said = f"{lost}, which leaves a loss-based TCP about {left} a stream at {format_duration(rtt)}"
    if not fits:
        alone, many = format_rate(loads.median(few)), facts.load.streams
        said += f"; {words.streams(few.streams)} alone got {alone}, and {many} that fall back at each loss do not fill the line either"
    thin = "" if more else "no UDP load was seen to carry more"
    return [Reading("loss", Fit.PROVEN if proven else Fit.FITS, said, evidence, thin, _next(facts, rtt, mss))]


def _figure(result: ThroughputResult, loss: float, rtt: float, mss: int) -> float:
    """Of the congestion control in use; what is not Reno is reckoned as CUBIC."""
    return mathis(mss, rtt, loss) if result.congestion_control == "reno" else cubic(mss, rtt, loss)


def _near(result: ThroughputResult, idle: Idle, rtt: int, mss: int) -> bool:
    """Whether a stream's rate is what the formula leaves, the interval of the loss taken into account."""
    each, (_, low, high) = loads.median(result) / result.streams, idle.rate
    return NEAR[0] * _figure(result, high, rtt, mss) <= each <= NEAR[1] * _figure(result, max(low, 1e-12), rtt, mss)


def _few(facts: Facts, idle: Idle, rtt: int, mss: int) -> Reading:
    """None lost, or as good as none: what does that many packets prove?"""
    most = idle.rate[2]
    least = _figure(facts.load, most, rtt, mss)
    said = f"{format_count(idle.lost)} of {format_count(idle.sent)} packets were lost while the line was idle"
    if least > NEAR[1] * facts.each:
        return refuted(
            "loss", f"{said}: at most {format_ratio(most)}, which leaves a stream at least {format_rate(least)}"
        )
    return unseen("loss", f"{said}: too few to exclude losses that hold a stream to {format_rate(facts.each)}")


def _lost(idle: Idle) -> str:
    return (
        f"{format_count(idle.lost)} of {format_count(idle.sent)} packets lost in {format_count(idle.events)} events while the line was idle "
        f"({format_ratio(idle.rate[0])}, {format_ratio(idle.rate[1])} to {format_ratio(idle.rate[2])})"
    )


def _formulas(facts: Facts, idle: Idle, rtt: int, mss: int) -> Lines:
    loss = idle.rate[0]
    return (
        (
            "Mathis (Reno)",
            f"{format_rate(mathis(mss, rtt, loss))} a stream at this loss, MSS {mss}, round trip {format_duration(rtt)}",
        ),
        ("CUBIC (RFC 9438)", f"{format_rate(cubic(mss, rtt, loss))} a stream; {format_rate(facts.each)} were measured"),
    )


def _line_carries(facts: Facts, result: ThroughputResult) -> Lines:
    """UDP, which does not slow down at a loss, carried clearly more than this load."""
    clean = [one for one in facts.counts if load_rates.loss_ratio(one) <= CLEAN]
    best = max(clean, key=load_rates.steady_bps, default=None)
    if best is None or load_rates.steady_bps(best) < MORE * facts.ip(loads.median(result)):
        return ()
    said = f"{format_rate(load_rates.steady_bps(best))} (IP) came through with {format_ratio(load_rates.loss_ratio(best))} lost: the line carries more than TCP takes"
    return (("UDP load", said),)


def _bbr(facts: Facts) -> Lines:
    if facts.bbr is None or loads.median(facts.bbr) < MORE * facts.got:
        return ()
    return (("BBR", f"{format_rate(loads.median(facts.bbr))}: it does not slow down at such losses, so it hides them"),)


def _next(facts: Facts, rtt: int, mss: int) -> str:
    share = RENO * mss * 8 * NS_PER_S / (rtt * facts.allowed)
    return (
        f"one Reno stream would fill {format_rate(facts.allowed)} only with losses below {format_ratio(share * share)}: have the carrier look for the losses "
        "(optics, duplex, errors of ports); until then more streams, or BBR where its side effects are acceptable"
    )
