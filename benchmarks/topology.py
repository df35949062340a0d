"""Two hosts in namespaces of their own, joined by one bare veth pair or through routers; gone with the processes that hold them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType

ROOT = os.geteuid() == 0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
Where = tuple[str, ...]  # a command line's beginning that runs what follows in a host


@dataclass(frozen=True, slots=True)
class Said:
    """What a program printed, and the CPU seconds it and what it started took."""

    out: str
    err: str
    cpu_s: float


class Server:
    """A program that runs at the far host until it is stopped."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.4)

    def cpu_s(self) -> float:
        """CPU seconds so far, with those of ended children."""
        with open(f"/proc/{self._process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * _TICK_S

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()


class Hosts:
    """`near` and `far`, with `routers` between them. Device names: "near" and "far" at the hosts."""

    def __init__(self, routers: int = 0) -> None:
        """Exits with a sentence when there are no namespaces to be had."""
        self._holders: list[subprocess.Popen[bytes]] = []
        inside = () if ROOT else ("-U", "--preserve-credentials")
        try:
            self._hold("unshare", *(() if ROOT else ("-Ur",)))
            first = ("nsenter", "-t", str(self._holders[0].pid), *inside, "-n")
            for _ in range(routers + 1):
                self._hold(*first, "unshare")
            spaces = [("nsenter", "-t", str(each.pid), *inside, "-n") for each in self._holders]
            self.near: Where = spaces[0]
            self.far: Where = spaces[-1]
            self._join(spaces)
        except BaseException:
            self.close()
            raise

    def _hold(self, *command: str) -> None:
        before = os.readlink("/proc/self/ns/net")
        # it ends with its standard input, which ends with us, however we end
        holder = subprocess.Popen([*command, "-n", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self._holders.append(holder)
        while holder.poll() is None:
            with open(f"/proc/{holder.pid}/comm") as comm:
                if comm.read().strip() == "cat" and os.readlink(f"/proc/{holder.pid}/ns/net") != before:
                    return
            time.sleep(0.01)
        sys.exit("no namespaces here: run as root, or allow user namespaces")

    def _join(self, spaces: list[Where]) -> None:
        """Link k is 10.91.k.0/24, its end nearer to the near host .1. Neighbours are known at once, routes lead both ways."""
        last = len(spaces) - 2
        for number, (one, other) in enumerate(pairwise(spaces)):
            names = ("near" if number == 0 else "right", "far" if number == last else "left")
            pid = str(self._holders[number + 1].pid)
            self.run(one, "ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns", pid)
            for where, device, end in ((one, names[0], 1), (other, names[1], 2)):
                self.run(where, "ip", "address", "add", f"10.91.{number}.{end}/24", "dev", device)
                self.run(where, "ip", "link", "set", device, "up")
        for number, space in enumerate(spaces):
            self.run(space, "ip", "link", "set", "lo", "up")
            if 0 < number <= last:
                self.run(space, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            if number < last:
                self.run(space, "ip", "route", "add", f"10.91.{last}.0/24", "via", f"10.91.{number}.2")
            if number > 1:
                self.run(space, "ip", "route", "add", "10.91.0.0/24", "via", f"10.91.{number - 1}.1")
        self.near_address, self.far_address = "10.91.0.1", f"10.91.{last}.2"
        self.run(self.near, "ping", "-n", "-c", "2", "-i", "0.2", "-w", "5", self.far_address)

    @staticmethod
    def run(where: Where, *command: str, timeout: float = 120) -> Said:
        """Run a program in a host to its end; what fails says so in its output."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*where, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Said(done.stdout, done.stderr, cpu)

    def serve(self, *command: str) -> Server:
        """Start a program at the far host."""
        return Server([*self.far, *command])

    def close(self) -> None:
        """End the processes that hold the namespaces."""
        for holder in self._holders:
            holder.kill()
            holder.communicate()

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
