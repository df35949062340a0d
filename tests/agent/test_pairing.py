"""Pairing lines, and the proofs that replace sending the token."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import UsageError
from linkqual.wire.control import DEFAULT_PORT
from linkqual.wire.pairing import MIN_TOKEN, Peer, proof, same

PIN = "0123456789abcdef" * 4
LINE = f"linkqual://192.0.2.7:4862?token=abcdefghijklmnop&cert=sha256:{PIN}"
TOKENS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=MIN_TOKEN, max_size=40)
HOSTS = (
    st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str) | st.from_regex(r"\A[a-z0-9]{1,12}(\.[a-z]{2,5})?\Z")
)


@given(st.builds(Peer, HOSTS, st.integers(1, 65535), st.none() | TOKENS, st.none() | st.just(PIN)))
@settings(max_examples=60, deadline=None)
def test_a_line_printed_is_the_line_read(peer: Peer) -> None:
    assert Peer.parse(peer.line) == peer


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_text_is_a_peer_or_a_usage_error(text: str) -> None:
    for given_text in (text, f"linkqual://{text}"):
        with contextlib.suppress(UsageError):
            Peer.parse(given_text)


@pytest.mark.parametrize(
    ("text", "host", "port", "name"),
    [
        ("192.0.2.7", "192.0.2.7", DEFAULT_PORT, "192.0.2.7:4862"),
        ("far.example:99", "far.example", 99, "far.example:99"),
        ("2001:db8::1", "2001:db8::1", DEFAULT_PORT, "[2001:db8::1]:4862"),
        ("[2001:DB8::1]:99", "2001:db8::1", 99, "[2001:db8::1]:99"),
        ("fe80::1%eth0", "fe80::1%eth0", DEFAULT_PORT, "[fe80::1%eth0]:4862"),
        ("  far_end  ", "far_end", DEFAULT_PORT, "far_end:4862"),
        ("münchen.example", "xn--mnchen-3ya.example", DEFAULT_PORT, "xn--mnchen-3ya.example:4862"),
    ],
)
def test_hosts(text: str, host: str, port: int, name: str) -> None:
    peer = Peer.parse(text)
    assert (peer.host, peer.port, peer.name) == (host, port, name)


def test_what_is_typed_goes_before_the_line() -> None:
    other = "f" * 64
    peer = Peer.parse(LINE, token="another long token", pin=f"sha256:{other.upper()}")
    assert (peer.token, peer.pin) == ("another long token", other)
    assert Peer.parse(LINE).token == "abcdefghijklmnop"


def test_the_token_is_not_in_the_representation() -> None:
    assert "abcdefghijklmnop" not in repr(Peer.parse(LINE))


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ":", "host:", "host:port", "host:0", "host:65536", "host:-1", "-host", "/etc/passwd", "a b", "[::1",
        "[192.0.2.1]:5", "host;id", "linkqual://", "linkqual://host?token=short&cert=sha256:" + PIN,
        "linkqual://host?cert=sha256:12", "linkqual://host?user=x", "linkqual://host/path", "linkqual://u@host",
        "linkqual://host?token=abcdefghijklmnop&token=abcdefghijklmnop", "linkqual://host:99999",
    ],
)  # fmt: skip
def test_what_is_no_peer(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Peer.parse(text)
    assert caught.value.hint


def test_a_proof_is_bound_to_token_side_certificate_and_nonce() -> None:
    proven = proof("token", "near", PIN, "nonce")
    others = {
        proof("Token", "near", PIN, "nonce"),
        proof("token", "far", PIN, "nonce"),
        proof("token", "near", PIN[::-1], "nonce"),
        proof("token", "near", PIN, "nonce2"),
    }
    assert len(others | {proven}) == 5
    assert same(proven, proof("token", "near", PIN, "nonce"))
    assert not any(same(proven, other) for other in others)
