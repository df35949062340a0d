"""Network namespaces held by descriptors: enter, run, set, and make tunnel ends in them. Floor 3."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from linkqual.errors import HostError
from linkqual.lab.isolate import CLONE_NEWNET, mount, setns, unshare

_MS_BIND = 0x1000
_NAMES = Path("/run/netns")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x1, 0x1000
_SIOCETHTOOL = 0x8946
# ETHTOOL_STXCSUM, _STSO, _SGSO, _SGRO: without them every skb is one packet of the line, so a shaper and a drop see single packets
_OFFLOADS = (0x17, 0x1F, 0x24, 0x2C)


def _current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Namespace:
    """One network namespace. It lives until `close` and the end of every process in it."""

    def __init__(self, name: str) -> None:
        """Make a new one. `ip netns` knows it by its name where /run/netns is a folder of the isolation's own."""
        self.name = name
        home = _current()
        try:
            unshare(CLONE_NEWNET)
            self.fd = _current()
            with contextlib.suppress(OSError):
                if os.path.ismount(_NAMES):
                    (_NAMES / name).touch()
                    mount("/proc/thread-self/ns/net", str(_NAMES / name), flags=_MS_BIND)
        except OSError as error:
            raise HostError(
                f"no network namespace for {name!r}: {error.strerror}", "linkqual doctor says what is missing"
            ) from None
        finally:
            setns(home)
            os.close(home)

    def close(self) -> None:
        """Let it go."""
        os.close(self.fd)

    def enter(self) -> None:
        """Move the calling thread (and what it starts from now on) into it for good."""
        setns(self.fd)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The calling thread is in the namespace; sockets made there stay there."""
        home = _current()
        setns(self.fd)
        try:
            yield
        finally:
            setns(home)
            os.close(home)

    def popen(self, argv: Sequence[str], **settings: Any) -> subprocess.Popen[Any]:
        """Start a program in it; `settings` as for subprocess.Popen."""
        with self.inside():
            return subprocess.Popen(argv, **settings)

    def run(self, argv: Sequence[str], script: str = "", pass_fds: Sequence[int] = ()) -> str:
        """Run a program of iproute2 or nft in it, `script` on its standard input. Returns what it prints; HostError when it fails."""
        try:
            with self.inside():
                done = subprocess.run(
                    argv,
                    input=script,
                    capture_output=True,
                    text=True,
                    check=False,
                    pass_fds=pass_fds,
                    env=_environment(),
                )
        except FileNotFoundError:
            package = "nftables" if argv[0] == "nft" else "iproute2"
            raise HostError(f"the program {argv[0]!r} is missing", f"apt-get install {package}") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip().replace("\n", "; ")
            raise HostError(
                f"{argv[0]} refused to set up {self.name!r}: {said}", "linkqual doctor says what is missing"
            )
        return done.stdout

    def sysctl(self, settings: dict[str, object]) -> None:
        """Write net.* settings of this namespace: {"ipv4/ip_forward": 1}. A kernel without one of them is left as it is."""
        with self.inside():
            for key, value in settings.items():
                with contextlib.suppress(OSError):
                    Path("/proc/sys/net", key).write_text(str(value), "utf-8")

    def tunnel(self, interface: str) -> int:
        """Make a TUN interface here; the descriptor gives and takes its IP packets, non-blocking. The interface ends with it."""
        try:
            with self.inside():
                fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", interface.encode(), _IFF_TUN | _IFF_NO_PI))
        except OSError as error:
            raise HostError(
                f"no tunnel for the line's delay: /dev/net/tun: {error.strerror}",
                "load the module tun (modprobe tun); in a container: --device /dev/net/tun",
            ) from None
        return fd

    def single_packets(self, interface: str) -> None:
        """Switch off what would merge packets of this interface into larger ones."""
        with self.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            for command in _OFFLOADS:
                _ethtool(any_socket.fileno(), interface, command)

    def interface_drops(self) -> dict[str, int]:
        """Packets each interface was given to send and dropped by itself."""
        with self.inside():
            lines = Path("/proc/thread-self/net/dev").read_text("utf-8").splitlines()[2:]
        return {line.split(":")[0].strip(): int(line.split(":")[1].split()[11]) for line in lines}


def _ethtool(fd: int, interface: str, command: int) -> None:
    """Set a switch to 0 by SIOCETHTOOL (struct ethtool_value behind struct ifreq); a driver without it is left as it is."""
    value = ctypes.create_string_buffer(struct.pack("II", command, 0), 8)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), ctypes.addressof(value)))


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
