"""How two ends come to trust each other: the pairing line the agent prints, and proofs of the token that never show it.

    linkqual://HOST:PORT?token=TOKEN&cert=sha256:HEX

The certificate is the agent's own and signed by nobody; its SHA-256 in the pairing line takes the place of an authority. Where
only the token is known (typed, or in the environment) it serves both ways: each end proves that it knows it, and binds the
proof to the certificate it sees. Floor 1, pure.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, quote, urlsplit

from linkqual.errors import UsageError
from linkqual.wire.control import DEFAULT_PORT

SCHEME = "linkqual"
MIN_TOKEN = (
    12  # characters; a shorter one could be found by trying, by somebody in the middle of an unpinned connection
)
_PIN = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})\Z")
_PORT_DIGITS = 5
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})\Z")


@dataclass(frozen=True, slots=True)
class Peer:
    """A far end: where it listens and how it is recognised. `pin` is the SHA-256 of its DER certificate in hex, None: not known."""

    host: str
    port: int = DEFAULT_PORT
    token: str | None = field(default=None, repr=False)
    pin: str | None = None

    @classmethod
    def parse(cls, text: str, token: str | None = None, pin: str | None = None) -> Peer:
        """Take a pairing line, HOST, HOST:PORT, an IPv6 address or [ADDRESS]:PORT; a given token or pin goes before the line's."""
        text = text.strip()
        peer = _from_line(text) if text.lower().startswith(f"{SCHEME}:") else _from_host(text)
        if token:
            peer = replace(peer, token=checked_token(token))
        if pin:
            peer = replace(peer, pin=_pin(pin))
        return peer

    @property
    def name(self) -> str:
        """HOST:PORT for people; an IPv6 address in brackets."""
        return join_host_port(self.host, self.port)

    @property
    def line(self) -> str:
        """The pairing line. It carries the token: for the user's eyes only."""
        fields = [f"token={quote(self.token, safe='')}"] if self.token else []
        fields += [f"cert=sha256:{self.pin}"] if self.pin else []
        return f"{SCHEME}://{self.name}" + (f"?{'&'.join(fields)}" if fields else "")


def join_host_port(host: str, port: int) -> str:
    """ "192.0.2.1:4862", "[2001:db8::1]:4862"."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _from_line(text: str) -> Peer:
    try:
        parts = urlsplit(text)
        fields = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=8)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise UsageError(f"this pairing line cannot be read: {error}", _LINE_HINT) from None
    if parts.scheme != SCHEME or not parts.netloc or not host or parts.path or parts.fragment or parts.username:
        raise UsageError("this pairing line cannot be read", _LINE_HINT)
    unknown = [name for name, values in fields.items() if name not in ("token", "cert") or len(values) != 1]
    if unknown:
        raise UsageError(f"this pairing line has a wrong or repeated field {unknown[0][:20]!r}", _LINE_HINT)
    return Peer(
        _host(host),
        _port(DEFAULT_PORT if port is None else port),
        checked_token(fields["token"][0]) if "token" in fields else None,
        _pin(fields["cert"][0]) if "cert" in fields else None,
    )


_LINE_HINT = "paste the whole line the agent printed: linkqual://HOST:PORT?token=...&cert=sha256:..., in quotes"
_HOST_HINT = "write it as HOST, HOST:PORT, [IPV6]:PORT, or paste the pairing line the agent printed"


def _from_host(text: str) -> Peer:
    return Peer(*host_and_port(text, DEFAULT_PORT, _HOST_HINT))


def host_and_port(text: str, default_port: int, hint: str) -> tuple[str, int]:
    """HOST, HOST:PORT, an IPv6 address or [ADDRESS]:PORT. Raises UsageError, with `hint` on how to write it."""
    if match := re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?", text):
        host, port = match[1], match[2]
        if ":" not in host:
            raise UsageError(f"{text!r}: only an IPv6 address stands in brackets", hint)
    elif text.count(":") == 1:
        host, port = text.split(":")
    else:
        host, port = text, None
    if port is not None and not (port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS):
        raise UsageError(f"{port[:20]!r} is no port", hint)
    return _host(host, hint), default_port if port is None else _port(int(port), hint)


def _host(host: str, hint: str = _HOST_HINT) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        ascii_name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        ascii_name = ""
    if not _NAME.match(ascii_name):
        raise UsageError(f"{host[:80]!r} is no name or address of a host", hint)
    return ascii_name.lower()  # as a URL has it


def _port(port: int, hint: str = _HOST_HINT) -> int:
    if not 1 <= port <= 65535:
        raise UsageError(f"{port} is no port", hint)
    return port


def checked_token(token: str) -> str:
    """The token itself, or UsageError when it is too short to be safe or cannot be typed."""
    if not MIN_TOKEN <= len(token) <= 256 or not token.isprintable() or not token.isascii():
        raise UsageError(
            f"a token has {MIN_TOKEN} to 256 printable ASCII characters",
            "leave it out at the agent: it makes a good one",
        )
    return token


def _pin(pin: str) -> str:
    match = _PIN.match(pin.strip())
    if not match:
        raise UsageError("a certificate's fingerprint is sha256: and 64 hex digits", _LINE_HINT)
    return match[1].lower()


def proof(token: str, side: str, pin: str, nonce: str) -> str:
    """Show knowledge of the token without sending it.

    HMAC-SHA-256 (RFC 2104), in hex, over the side that speaks ("near" or "far"), the fingerprint of the certificate as that
    side sees it, and the near end's nonce. Somebody in the middle, with a certificate of his own, can pass on neither proof.
    """
    said = "\0".join(("linkqual control", side, pin, nonce))
    return hmac.new(token.encode(), said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
