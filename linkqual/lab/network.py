"""A line made of real packets: namespaces as nodes, veth pairs and tunnels as links, the kernel's shapers, pumps for the rest. Floor 3.

To be used inside `isolate.run_isolated`. Addresses: link i carries 10.77.i.0/30 and fd77:0:0:i::/64, `a` of the link has 1, `b` has 2.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from numpy.random import SeedSequence

from linkqual.bottleneck import Rate
from linkqual.errors import UsageError
from linkqual.impair import Impairer
from linkqual.lab import pump, shaping
from linkqual.lab.description import DIRECTIONS, Line, LineLink, Node
from linkqual.lab.netns import Namespace
from linkqual.model import Direction

_TUNNEL_QUEUE = 20_000  # packets a stalled pump may find waiting before its tunnel drops one
_SETTINGS: dict[str, object] = {
    "ipv4/conf/all/rp_filter": 0,
    "ipv4/conf/default/rp_filter": 0,
    "ipv4/conf/all/send_redirects": 0,
    "ipv4/conf/default/send_redirects": 0,
    "ipv4/conf/all/accept_redirects": 0,
    "ipv4/icmp_errors_use_inbound_ifaddr": 1,  # as routers do
    "ipv4/icmp_msgs_per_sec": 1_000_000,
    "ipv4/ping_group_range": "0 2147483647",
    "ipv4/tcp_rmem": "4096 131072 67108864",
    "ipv4/tcp_wmem": "4096 65536 67108864",
    "ipv4/tcp_no_metrics_save": 1,  # one test teaches the next nothing
    "ipv4/tcp_congestion_control": "cubic",
    "ipv6/conf/all/accept_dad": 0,
    "ipv6/conf/default/accept_dad": 0,
    "ipv6/conf/all/accept_ra": 0,
    "ipv6/conf/default/accept_ra": 0,
    "ipv6/conf/default/router_solicitations": 0,
    "ipv6/conf/default/addr_gen_mode": 1,
    "ipv6/conf/all/accept_redirects": 0,
}
_SILENCE = """table inet silent {
  chain out {
    type filter hook output priority 0
    icmp type time-exceeded drop
    icmpv6 type time-exceeded drop
  }
}
"""
_HIDDEN_MTU = """table inet blackhole {
  chain out {
    type filter hook output priority 0
    icmp type destination-unreachable icmp code frag-needed drop
    icmpv6 type packet-too-big drop
  }
}
"""
_REMARK = """table inet remark {{
  chain in {{
    type filter hook prerouting priority -150
{}
  }}
}}
"""


class VirtualLine:
    """A line under way. `with VirtualLine(line) as virtual:` builds it and takes it down again."""

    def __init__(self, line: Line, lane: Callable[[int, int, Impairer, memoryview], pump.Lane] = pump.Lane) -> None:
        """`lane` makes each direction of a pumped link: one that keeps books of its own, for a test of the line itself."""
        self.line = line
        self._lane = lane
        self.near, self.far = line.near, line.far
        self.spaces: dict[str, Namespace] = {}
        self._numbers = {link.name: number for number, link in enumerate(line.links, 1)}
        self._pumps: list[int] = []
        self._rows: dict[tuple[str, str], memoryview] = {}  # (link, node it leads to) -> counters
        self._children: list[subprocess.Popen[Any]] = []
        self._drops_before: dict[str, dict[str, int]] = {}

    def __enter__(self) -> VirtualLine:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # ---- building

    def up(self) -> None:
        """Build it. HostError when this host lacks something; nothing is left behind then."""
        try:
            self._make_nodes()
            tunnels = self._make_links()
            for node in self.line.nodes:
                self.spaces[node.name].run(["ip", "-batch", "-"], "\n".join(self._commands(node)) + "\n")
                if rules := list(self._remarks(node)):
                    self.spaces[node.name].run(["nft", "-f", "-"], _REMARK.format("\n".join(rules)))
            self._shape()
            self._start_pumps(tunnels)
            # the kernel's first multicast reports may have met a peer that was not up yet: no traffic of the line
            self._drops_before = {name: space.interface_drops() for name, space in self.spaces.items()}
        except BaseException:
            self.down()
            raise

    def _make_nodes(self) -> None:
        for node in self.line.nodes:
            space = self.spaces[node.name] = Namespace(node.name)
            interval_ms = node.icmp_interval_ns // 10**6
            space.sysctl(
                {
                    **_SETTINGS,
                    "ipv4/ip_forward": int(not node.site),
                    "ipv6/conf/all/forwarding": int(not node.site),
                    "ipv4/icmp_ratelimit": interval_ms,
                    "ipv6/icmp/ratelimit": interval_ms,
                }
            )
            if node.window_bytes:  # what the route allows holds as long as the buffer does not grow
                space.sysctl({"ipv4/tcp_rmem": f"4096 {4 * node.window_bytes} {4 * node.window_bytes}"})
            if node.silent:
                space.run(["nft", "-f", "-"], _SILENCE)
            if node.hides_mtu:
                space.run(["nft", "-f", "-"], _HIDDEN_MTU)

    def _make_links(self) -> dict[tuple[str, str], int]:
        """Both ends of every link; (link, node) -> descriptor of each tunnel end."""
        tunnels: dict[tuple[str, str], int] = {}
        commands, fds = [], []
        for link in self.line.links:
            name = self._interface(link)
            if link.pumped:
                for node in (link.a, link.b):
                    tunnels[link.name, node] = self.spaces[node].tunnel(name)
                continue
            a, b = self.spaces[link.a].fd, self.spaces[link.b].fd
            fds += [a, b]
            commands.append(
                f"link add name {name} address {self._mac(link, link.a)} netns /proc/self/fd/{a} type veth "
                f"peer name {name} address {self._mac(link, link.b)} netns /proc/self/fd/{b}"
            )
        if commands:
            self.spaces[self.near].run(["ip", "-batch", "-"], "\n".join(commands) + "\n", fds)
        for link in self.line.links:
            if not link.pumped:
                self.spaces[link.a].single_packets(self._interface(link))
                self.spaces[link.b].single_packets(self._interface(link))
        return tunnels

    def _commands(self, node: Node) -> Iterator[str]:
        """What `ip -batch` is to do in one node."""
        yield "link set lo up"
        for link in self._links_of(node.name):
            name, other = self._interface(link), link.b if node.name == link.a else link.a
            yield f"link set {name} mtu {link.mtu} txqueuelen {_TUNNEL_QUEUE} up"
            yield f"addr add {self._on_link(link, node.name, 4)}/30 dev {name}"
            if os.path.isdir("/proc/sys/net/ipv6"):
                yield f"addr add {self._on_link(link, node.name, 6)}/64 dev {name} nodad"
            if not link.pumped:  # neighbours by hand: no ARP shares the line with what is measured
                for version in self._versions():
                    yield f"neigh add {self._on_link(link, other, version)} lladdr {self._mac(link, other)} dev {name} nud permanent"
        for version in self._versions():
            for target in (self.near, self.far):
                if (hop := self._next_hop(node.name, target)) and hop != target:
                    link = self.line.between(node.name, hop)
                    route = f"{self.address(target, version)} via {self._on_link(link, hop, version)} dev {self._interface(link)}"
                    source = f" src {self.address(node.name, version)}" if node.site else ""
                    window = f" window {node.window_bytes - 1}" if node.window_bytes else ""
                    yield f"route add {route}{source}{window}"

    def _remarks(self, node: Node) -> Iterator[str]:
        """What the links into a node do to markings, as its firewall's rules. A DSCP that was changed is left alone then."""
        for link in self._links_of(node.name):
            done, arrived = link.toward(node.name), f'iifname "{self._interface(link)}"'
            for ip in ("ip", "ip6"):
                if done.bleach:
                    yield f"{arrived} {ip} ecn != not-ect {ip} ecn set not-ect"
                for dscp, to in done.remark:
                    yield f"{arrived} {ip} dscp {dscp} {ip} dscp set {to} accept"

    def _versions(self) -> tuple[int, ...]:
        return (4, 6) if os.path.isdir("/proc/sys/net/ipv6") else (4,)

    def _links_of(self, node: str) -> Iterator[LineLink]:
        return (link for link in self.line.links if node in {link.a, link.b})

    def _next_hop(self, node: str, target: str) -> str | None:
        """Along the path that leads to the target; from a router that is not on it, back along the other one."""
        path, other = (
            (self.line.forward, self.line.reverse) if target == self.far else (self.line.reverse, self.line.forward)
        )
        if node == target:
            return None
        if node in path:
            return path[path.index(node) + 1]
        return other[other.index(node) - 1]

    def _shape(self) -> None:
        commands: dict[str, list[str]] = {}
        for link, toward, rate in self._rates():
            sender, interface = link.a if toward == link.b else link.b, self._interface(link)
            commands.setdefault(sender, []).extend(shaping.queues(interface, rate, link.mtu, framed=not link.pumped))
            if table := shaping.spreading(interface, rate, self._numbers[link.name]):
                self.spaces[sender].run(["nft", "-f", "-"], table)
        for node, lines in commands.items():
            self.spaces[node].run(["tc", "-batch", "-"], "\n".join(lines) + "\n")

    def _rates(self) -> Iterator[tuple[LineLink, str, Rate]]:
        for link in self.line.links:
            for toward, impairment in ((link.b, link.there), (link.a, link.back)):
                if impairment.rate:
                    yield link, toward, impairment.rate

    def _start_pumps(self, tunnels: dict[tuple[str, str], int]) -> None:
        ways = [(link, toward) for link in self.line.links if link.pumped for toward in (link.b, link.a)]
        self._memory, rows = pump.counters(len(ways))
        seeds = SeedSequence(self.line.seed).spawn(len(ways))
        forward = {(link.name, node) for link, node in self.line.crossings(Direction.FORWARD)}
        lanes: dict[bool, list[pump.Lane]] = {True: [], False: []}
        for (link, toward), row, seed in zip(ways, rows, seeds, strict=True):
            sender = link.a if toward == link.b else link.b
            self._rows[link.name, toward] = row
            impairer = Impairer(link.toward(toward), seed)
            lane = self._lane(tunnels[link.name, sender], tunnels[link.name, toward], impairer, row)
            lane.hash_seed = self._numbers[link.name]
            lanes[(link.name, toward) in forward].append(lane)
        self._pumps = [pump.spawn(group) for group in lanes.values() if group]
        for fd in tunnels.values():
            os.close(fd)

    # ---- using

    def address(self, node: str, version: int = 4) -> str:
        """The address of a site: the one the line's packets arrive at; of a router: that of its first link."""
        direction = {self.far: Direction.FORWARD, self.near: Direction.REVERSE}.get(node)
        if direction is not None:
            link = list(self.line.crossings(direction))[-1][0]
        else:
            self._space(node)
            link = next(self._links_of(node))
        return self._on_link(link, node, version)

    def enter(self, node: str) -> None:
        """Move the calling thread into a node for good."""
        self._space(node).enter()

    def inside(self, node: str) -> contextlib.AbstractContextManager[None]:
        """The calling thread is in the node; sockets and processes it makes meanwhile stay there."""
        return self._space(node).inside()

    def popen(self, node: str, argv: Sequence[str], **settings: Any) -> subprocess.Popen[Any]:
        """Start a program in a node, ended by `down` at the latest; `settings` as for subprocess.Popen."""
        child = self._space(node).popen(argv, **settings)
        self._children.append(child)
        return child

    def truth(self) -> dict[str, Any]:
        """What the line did so far, counted where it was done.

        By direction: `dropped`, `duplicated`, `reordered` by the impairments, each also by protocol under `udp`, `tcp`, `icmp`,
        `other`; `over_rate`: dropped by shapers and policers; `own`: lost by the lab itself (must be 0); `late`: handed on more than 1 ms after their time. `links` says the same of
        every direction of every link.
        """
        links = [self._lane_truth(link, toward) for link in self.line.links for toward in (link.b, link.a)]
        found: dict[str, Any] = {"line": self.line.name, "links": links}
        for direction in DIRECTIONS:
            crossed = [(link.name, node) for link, node in self.line.crossings(direction)]
            rows = [row for row in links if (row["link"], row["to"]) in crossed]
            pumped = [row for row in rows if row["pumped"]]
            total: dict[str, Any] = {"seen": pumped[0]["seen"] if pumped else None}
            for key in ("dropped", "duplicated", "reordered", "over_rate", "own", "late"):
                total[key] = sum(row[key] for row in rows)
            for protocol in pump.PROTOCOLS:
                total[protocol] = {
                    key: sum(row[protocol][key] for row in pumped) for key in ("dropped", "duplicated")
                } | {"seen": pumped[0][protocol]["seen"] if pumped else None}
            found[str(direction)] = total
        return found

    def _lane_truth(self, link: LineLink, toward: str) -> dict[str, Any]:
        sender = link.a if toward == link.b else link.b
        row = self._rows.get((link.name, toward))
        values = row.tolist() if row is not None else [0] * pump.COLUMNS
        lane: dict[str, Any] = {"link": link.name, "to": toward, "pumped": row is not None}
        for key, first in (("seen", pump.SEEN), ("dropped", pump.DROPPED), ("duplicated", pump.DUPLICATED)):
            lane[key] = sum(values[first : first + len(pump.PROTOCOLS)])
            for i, protocol in enumerate(pump.PROTOCOLS):
                lane.setdefault(protocol, {})[key] = values[first + i]
        name = self._interface(link)
        drops = self.spaces[sender].interface_drops()[name] - self._drops_before[sender][name]
        lane |= {"reordered": values[pump.REORDERED], "over_rate": 0, "own": values[pump.FAILED]}
        lane |= {"latest_ns": values[pump.LATEST_NS], "late": values[pump.LATE]}
        if link.toward(toward).rate:
            shown = json.loads(self.spaces[sender].run(["tc", "-s", "-j", "qdisc", "show", "dev", name]))
            lane["over_rate"] = sum(int(queue.get("drops", 0)) for queue in shown if queue.get("root"))
        lane["own"] += drops
        return lane

    def down(self) -> None:
        """Take it down in order; safe to call twice and after a failed `up`."""
        for child in self._children:
            with contextlib.suppress(OSError):
                child.terminate()
        for child in self._children:
            try:
                child.wait(2)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for pid in self._pumps:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
        for space in self.spaces.values():
            space.close()
        self._children, self._pumps, self.spaces = [], [], {}

    # ---- names and numbers

    def _space(self, node: str) -> Namespace:
        if node not in self.spaces:
            raise UsageError(f"the line has no node {node!r}", f"one of {', '.join(self.spaces)}")
        return self.spaces[node]

    def _interface(self, link: LineLink) -> str:
        return f"link{self._numbers[link.name]}"

    def _on_link(self, link: LineLink, node: str, version: int) -> str:
        number, end = self._numbers[link.name], 1 if node == link.a else 2
        return f"10.77.{number}.{end}" if version == 4 else f"fd77:0:0:{number:x}::{end}"

    def _mac(self, link: LineLink, node: str) -> str:
        return f"02:4c:51:00:{self._numbers[link.name]:02x}:{1 if node == link.a else 2:02x}"
