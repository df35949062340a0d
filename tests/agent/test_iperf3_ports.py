"""iperf3 servers of several agents on one host, all from one range of ports."""

from __future__ import annotations

import asyncio

import pytest

from linkqual.agent.iperf3 import Iperf3Server

pytestmark = pytest.mark.loopback
PORTS = (5461, 5490)


def test_servers_that_start_at_the_same_moment_have_a_port_each() -> None:
    async def started() -> list[int]:
        servers = await asyncio.gather(*(Iperf3Server.start("127.0.0.1", PORTS, 5, lambda: False) for _ in range(6)))
        for server in servers:
            await server.close(0)
        return [server.port for server in servers]

    for _ in range(3):
        ports = asyncio.run(started())
        assert len(set(ports)) == 6, ports
