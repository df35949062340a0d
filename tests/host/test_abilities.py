"""What this process may do: tried, with and without rights."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest

from linkqual.net import abilities

ASK = """
import json
from linkqual.net import abilities
rights = {"raw": abilities.raw_sockets(), "force": abilities.buffers().forced is not None}
print(json.dumps(rights | {"stamps": sorted(abilities.stamps())}))
"""
without_rights = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can give rights away, with setpriv"
)


@pytest.mark.loopback
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_kernel_stamps_what_we_send_and_what_we_receive(address: str) -> None:
    assert abilities.stamps(address) == {"tx", "rx"}


@pytest.mark.loopback
def test_an_address_that_is_not_ours_gets_no_stamp() -> None:
    assert abilities.stamps("203.0.113.1") == frozenset()


def test_buffers_are_what_a_socket_gets() -> None:
    got = abilities.buffers()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        assert got.granted == sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert got.forced is None or got.forced >= got.granted


@without_rights
def test_without_rights_the_trials_fail_and_the_rest_works() -> None:
    ended = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", sys.executable, "-c", ASK],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ended.stdout)
    assert found == {"raw": False, "force": False, "stamps": ["rx", "tx"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="root has these rights")
def test_root_has_them() -> None:
    assert abilities.raw_sockets()
    assert abilities.buffers().forced is not None


@pytest.mark.lab
def test_namespaces_are_tried_and_leave_nothing_behind() -> None:
    entered, works = abilities.namespaces()
    assert entered
    assert works == {"veth", "tbf", "nft", "tun"}
    assert {"lqa", "lqb", "lqt"}.isdisjoint(name for _, name in socket.if_nameindex())


def test_without_unshare_there_are_no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert abilities.namespaces() == (False, frozenset())
