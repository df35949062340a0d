"""The two parts of an IP packet's Traffic Class octet, by number and by name: DSCP (RFC 2474) and ECN (RFC 3168).

     0   1   2   3   4   5   6   7
    +---+---+---+---+---+---+---+---+
    |         DSCP          |  ECN  |   TOS of IPv4, Traffic Class of IPv6
    +---+---+---+---+---+---+---+---+

Floor 1, pure.
"""

from __future__ import annotations

from linkqual.errors import InputError

# RFC 2474 and 4594 (CS), 2597 (AF), 3246 (EF), 5865 (VA), 8622 (LE)
_DSCP = {f"CS{n}": 8 * n for n in range(8)}
_DSCP |= {f"AF{c}{d}": 8 * c + 2 * d for c in range(1, 5) for d in range(1, 4)}
_DSCP |= {"EF": 46, "VA": 44, "LE": 1}
_DSCP_NAMES = {number: name for name, number in _DSCP.items()}

NOT_ECT, ECT_1, ECT_0, CE = range(4)
ECN_NAMES = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")  # by number
_ECN = {name.upper(): number for number, name in enumerate(ECN_NAMES)} | {"ECT0": ECT_0, "ECT1": ECT_1}


def parse_dscp(text: str) -> int:
    """6-bit code point of "EF", "AF41", "CS3", "BE" (CS0) or a number."""
    word = text.upper()
    if word == "BE":
        return 0
    if word in _DSCP:
        return _DSCP[word]
    if text.isdecimal() and len(text) <= 2 and int(text) < 64:
        return int(text)
    raise InputError(f"{text!r} is no DSCP", "0 to 63, BE, LE, EF, VA, CS0 to CS7, AF11 to AF43")


def parse_ecn(text: str) -> int:
    """2-bit code point of "Not-ECT", "ECT(0)" or "ECT0", "ECT(1)" or "ECT1", "CE"."""
    if text.upper() in _ECN:
        return _ECN[text.upper()]
    raise InputError(f"{text!r} is no ECN code point", "Not-ECT, ECT(0), ECT(1), CE")


def dscp_name(number: int) -> str:
    """ "EF"; "DSCP 5" where there is no name."""
    return _DSCP_NAMES.get(number, f"DSCP {number}")


def ecn_name(number: int) -> str:
    """ "ECT(0)"."""
    return ECN_NAMES[number]


def octet(dscp: int, ecn: int) -> int:
    """Both as the octet of the IP header."""
    return dscp << 2 | ecn


def parts(octet_: int) -> tuple[int, int]:
    """(DSCP, ECN) of the octet."""
    return octet_ >> 2, octet_ & 3
