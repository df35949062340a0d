"""
A chain of namespaces built by hand, apart from the product's own lab, so that a trace meets real routers.

    forward   near - r1 - r2 - r3 - far        10.91.<i>.0/30 and fd91:<i>::/126 on each link
    return    near - r1 - q1 - q2 - r3 - far   when built with a longer return path

Names carry the process id; everything is undone in one place, also after a failure half-way.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000
PREFIX = "lqpath"
_libc = ctypes.CDLL(None, use_errno=True)
_serial = itertools.count()


def run(command: str, *last: str) -> str:
    done = subprocess.run([*command.split(), *last], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def entered(namespace: str) -> Iterator[None]:
    """This thread is in the namespace; sockets opened here stay there."""
    home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if _libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        yield
    finally:
        _libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


def sweep() -> None:
    """Remove what a test run that was killed has left."""
    for line in run("ip netns list").splitlines():
        name = line.split()[0]
        if name.startswith(PREFIX) and not os.path.exists(f"/proc/{name.removeprefix(PREFIX).split('x')[0]}"):
            run(f"ip netns del {name}")


class Chain:
    """Nodes by short name. `link` numbers its subnet; `route` leads hosts and routers along a list of nodes."""

    def __init__(self) -> None:
        self._prefix = f"{PREFIX}{os.getpid()}x{next(_serial)}-"
        self._nodes: list[str] = []
        self._links = 0
        self.addresses: dict[tuple[str, str], tuple[str, str]] = {}  # (node, neighbour) -> IPv4, IPv6

    def name(self, node: str) -> str:
        return self._prefix + node

    def address(self, node: str, toward: str, family: int = 4) -> str:
        return self.addresses[node, toward][family == 6]

    def node(self, node: str) -> None:
        run(f"ip netns add {self.name(node)}")
        self._nodes.append(node)
        run(f"ip -n {self.name(node)} link set lo up")
        with entered(self.name(node)):
            for setting in (
                "ipv4/ip_forward",
                "ipv6/conf/all/forwarding",
            ):
                write(setting, "1")
            for setting in ("ipv4/conf/all/rp_filter", "ipv4/conf/default/rp_filter", "ipv6/conf/default/accept_dad"):
                write(setting, "0")

    def link(self, a: str, b: str) -> None:
        self._links += 1
        i = self._links
        for node in (a, b):
            if node not in self._nodes:
                self.node(node)
        run(f"ip link add {a}-{b} netns {self.name(a)} type veth peer name {b}-{a} netns {self.name(b)}")
        for node, other, last in ((a, b, 1), (b, a, 2)):
            device = f"{node}-{other}"
            self.addresses[node, other] = (f"10.91.{i}.{last}", f"fd91:{i}::{last}")
            run(f"ip -n {self.name(node)} addr add 10.91.{i}.{last}/30 dev {device}")
            run(f"ip -n {self.name(node)} addr add fd91:{i}::{last}/126 dev {device} nodad")
            run(f"ip -n {self.name(node)} link set {device} up")

    def route(self, path: list[str]) -> None:
        """Every node but the last sends what is for the last one's nearest address to the next."""
        for family, width in ((4, 32), (6, 128)):
            end = self.address(path[-1], path[-2], family)
            for node, following in itertools.pairwise(path[:-1]):
                via = self.address(following, node, family)
                run(f"ip -n {self.name(node)} -{family} route replace {end}/{width} via {via}")

    def silence(self, node: str) -> None:
        """That router forwards, but sends no ICMP errors."""
        drops = "icmp type time-exceeded drop; icmpv6 type time-exceeded drop"
        rules = f"table inet quiet {{ chain out {{ type filter hook output priority 0; {drops}; }}; }}"
        run(f"ip netns exec {self.name(node)} nft", rules)

    def remove(self) -> None:
        for node in self._nodes:
            subprocess.run(["ip", "netns", "del", self.name(node)], check=False, capture_output=True)


def write(setting: str, value: str) -> None:
    """A sysctl of the current thread's namespace."""
    with open(f"/proc/thread-self/../../../sys/net/{setting}", "w", encoding="ascii") as file:
        file.write(value)


def build(forward: list[str], backward: list[str] | None = None) -> Chain:
    """Both lists run from the near to the far end; `backward` is walked the other way."""
    back = backward or forward
    sweep()
    chain = Chain()
    try:
        done: set[tuple[str, str]] = set()
        for path in (forward, back):
            for pair in itertools.pairwise(path):
                if pair not in done:
                    chain.link(*pair)
                    done.add(pair)
        chain.route(forward)
        chain.route(back[::-1])
        for node in set(forward[1:-1]) - set(back):  # they too must be able to send their errors home
            place = forward.index(node)
            chain.route([node, *reversed(forward[:place])])
        for node in set(back[1:-1]) - set(forward):
            chain.route([node, *back[back.index(node) + 1 :]])
    except BaseException:
        chain.remove()
        raise
    return chain
