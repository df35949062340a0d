"""Networks built of namespaces, so that traces meet real routers whose truth is known: to be used in an isolation of `linkqual.lab`."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from networks import FAR, NEAR, Network, Step

from linkqual.errors import HostError
from linkqual.lab.netns import Namespace

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_BURST = 40  # packets of a flow that tell which links it takes
_PORTS_HASHED_TOO = 0x37  # both addresses, the protocol, both ports


class Built:
    """A network under way; `crossed` tells which links a flow really takes."""

    def __init__(self, network: Network, label: str = "") -> None:
        self.network = network
        self.spaces = {node: Namespace(f"{label}{node}") for node in network.nodes}
        self._switches: list[Namespace] = []
        try:
            for node, space in self.spaces.items():
                space.sysctl(self._settings(node))
            for k, link in enumerate(network.links):
                self._join(k, link, label)
            for node, space in self.spaces.items():
                space.run(["ip", "-batch", "-"], "\n".join(self._commands(node)) + "\n")
                if rules := self._rules(node):
                    space.run(["nft", "-f", "-"], rules)
        except BaseException:
            self.close()
            raise

    def _settings(self, node: str) -> dict[str, object]:
        router, limit = int(node not in {NEAR, FAR}), 1000 if self.network.limited else 0
        return {
            "ipv4/ip_forward": router,
            "ipv6/conf/all/forwarding": router,
            "ipv6/conf/all/accept_dad": 0,
            "ipv6/conf/default/accept_dad": 0,
            "ipv6/conf/default/router_solicitations": 0,
            "ipv4/conf/all/rp_filter": 0,
            "ipv4/conf/default/rp_filter": 0,
            "ipv4/conf/all/send_redirects": 0,
            "ipv4/conf/default/send_redirects": 0,
            "ipv4/icmp_errors_use_inbound_ifaddr": int(node in self.network.inbound),
            "ipv4/icmp_ratelimit": limit,
            "ipv6/icmp/ratelimit": limit,
            "ipv4/icmp_msgs_per_sec": 1_000_000,
            **{f"ipv{version}/fib_multipath_hash_policy": 3 for version in FAMILIES},
            **{f"ipv{version}/fib_multipath_hash_fields": _PORTS_HASHED_TOO for version in FAMILIES},
        }

    def _join(self, k: int, link: Sequence[str], label: str) -> None:
        if len(link) == 2:
            a, b = (self.spaces[node].fd for node in link)
            pair = f"link add l{k} netns /proc/self/fd/{a} type veth peer name l{k} netns /proc/self/fd/{b}\n"
            self.spaces[link[0]].run(["ip", "-batch", "-"], pair, (a, b))
            return
        switch = Namespace(f"{label}lan{k}")
        self._switches.append(switch)
        lines, fds = ["link add lan type bridge", "link set lan up"], [self.spaces[node].fd for node in link]
        for node, fd in zip(link, fds, strict=True):
            lines += [f"link add {node} type veth peer name l{k} netns /proc/self/fd/{fd}"]
            lines += [f"link set {node} master lan", f"link set {node} up"]
        switch.run(["ip", "-batch", "-"], "\n".join(lines) + "\n", fds)

    def _commands(self, node: str) -> Iterator[str]:
        made = self.network
        yield "link set lo up"
        for k in (k for k, link in enumerate(made.links) if node in link):
            for version, last in ((4, ""), (6, " nodad")):
                yield f"address add {made.address(k, node, version)}/{made.length(k, version)} dev l{k}{last}"
            yield f"link set l{k} up"
        for version, last in ((4, ""), (6, " nodad")) if node in made.one_name else ():
            yield f"address add {made.name(node, version)}/{32 if version == 4 else 128} dev lo{last}"
        for target in (NEAR, FAR):
            steps = made.ways(target).get(node, ())
            for version in FAMILIES if steps else ():
                source = f" src {made.name(node, version)}" if node in made.one_name else ""
                via = [f"via {made.address(k, after, version)} dev l{k}" for k, after in steps]
                hops = via[0] if len(via) == 1 else " ".join(f"nexthop {one}" for one in via)
                if made.site(target, version) not in {made.address(k, after, version) for k, after in steps}:
                    yield f"route add {made.site(target, version)}{source} {hops}"
                elif source:
                    yield f"route add {made.site(target, version)}{source} dev l{steps[0][0]}"

    def _rules(self, node: str) -> str:
        out = "icmp type time-exceeded drop; icmpv6 type time-exceeded drop" if node in self.network.silent else ""
        on = "ip option rr exists drop" if node == self.network.no_options else ""
        chains = [
            f"chain {hook} {{ type filter hook {hook} priority 0; {rule}; }}"
            for hook, rule in (("output", out), ("prerouting", on))
            if rule
        ]
        return f"table inet habits {{\n{chr(10).join(chains)}\n}}\n" if chains else ""

    def crossed(self, source: tuple[str, int], target: tuple[str, int], version: int) -> tuple[Step, ...]:
        """Links a flow between two (end, port) takes, each with the node it leads to, in order: counted by the interfaces."""
        with contextlib.ExitStack() as open_:
            ends = []
            for node, port in (source, target):
                with self.spaces[node].inside():
                    end = open_.enter_context(socket.socket(FAMILIES[version], socket.SOCK_DGRAM))
                    _bind(end, (self.network.site(node, version), port))
                    ends.append(end)
            before = self._received()
            for number in range(_BURST):
                ends[0].sendto(bytes(100 + number), ends[1].getsockname()[:2])
            until = time.monotonic() + 5
            ends[1].settimeout(5)
            for _ in range(_BURST):
                ends[1].recv(2000)
            assert time.monotonic() < until
            after = self._received()
        taken = {step for step, count in after.items() if count - before[step] >= _BURST}
        path, node = [], source[0]
        while taken:
            step = next(step for step in taken if node in self.network.links[step[0]])
            taken.remove(step)
            path.append(step)
            node = step[1]
        assert node == target[0], f"the flow went {path}"
        return tuple(path)

    def _received(self) -> dict[Step, int]:
        found = {}
        for node, space in self.spaces.items():
            with space.inside():
                lines = Path("/proc/thread-self/net/dev").read_text("utf-8").splitlines()[2:]
            for name, _, counts in (line.partition(":") for line in lines):
                if name.strip().startswith("l") and name.strip() != "lo":
                    found[int(name.strip()[1:]), node] = int(counts.split()[1])
        return found

    def close(self) -> None:
        """Let all of it go: the interfaces first, for the kernel takes its time with namespaces and has room for so many neighbours only."""
        for node, space in self.spaces.items():
            first = [f"link delete l{k}" for k, link in enumerate(self.network.links) if link[0] == node]
            with contextlib.suppress(HostError):  # not all of them were made
                space.run(["ip", "-force", "-batch", "-"], "\n".join(first) + "\n")
        for space in (*self.spaces.values(), *self._switches):
            space.close()

    def __enter__(self) -> Built:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _bind(sock: socket.socket, address: tuple[str, int]) -> None:
    """A program that another thread starts just now holds what this process had open until it is under way."""
    for left in reversed(range(100)):
        try:
            sock.bind(address)
            return
        except OSError:
            if not left:
                raise
        time.sleep(0.01)
