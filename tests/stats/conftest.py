"""A seeded stream of packets whose truth is known, as rows of the packet table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records

StreamMaker = Callable[..., Records]


def make_stream(
    n: int,
    seed: int = 1,
    *,
    pace_ns: int = 1_000_000,
    base_ns: int = 5_000_000,
    jitter_ns: int = 200_000,
    loss_forward: float = 0.0,
    loss_reverse: float = 0.0,
    lost: float = 0.0,
    unsent: float = 0.0,
    duplicates: float = 0.0,
    user_t3: float = 0.0,
    late: float = 0.0,
    offset_ns: int = 0,
    first_seq: int = 0,
) -> Records:
    """n packets: gamma-distributed delay above `base_ns` each way (more jitter than pace reorders), faults at the given rates."""
    rng = np.random.default_rng(seed)
    rows = empty_records(n, first_seq)
    rows["intended_ns"] = 1_700_000_000_000_000_000 + (first_seq + np.arange(n)) * pace_ns
    rows["packet_bytes"], rows["forward_ttl"], rows["reverse_ttl"] = 100, 61, 60 + rng.integers(0, 2, n)
    sent = rng.random(n) >= unsent
    fate = np.full(n, Fate.RECEIVED)
    fate[rng.random(n) < loss_forward] = Fate.LOST_FORWARD
    fate[(fate == Fate.RECEIVED) & (rng.random(n) < loss_reverse)] = Fate.LOST_REVERSE
    fate[rng.random(n) < lost] = Fate.LOST
    rows["fate"] = np.where(sent, fate, Fate.UNSENT)

    t1 = rows["intended_ns"] + rng.integers(0, 5_000, n)
    t2 = t1 + base_ns + rng.gamma(2.0, jitter_ns / 2 + 1e-9, n).astype(np.int64)
    t3 = t2 + rng.integers(5_000, 50_000, n)
    t4 = t3 + base_ns + rng.gamma(2.0, jitter_ns / 2 + 1e-9, n).astype(np.int64)
    rows["sent_ns"][sent] = t1[sent]
    reached = np.flatnonzero(np.isin(rows["fate"], [Fate.RECEIVED, Fate.LOST_REVERSE]))
    rows["far_received_ns"][reached] = t2[reached] + offset_ns
    rows["far_sent_ns"][reached] = t3[reached] + offset_ns
    rows["far_seq"][reached] = first_seq + np.argsort(np.argsort(t2[reached], kind="stable"))
    back = np.flatnonzero(rows["fate"] == Fate.RECEIVED)
    rows["received_ns"][back] = t4[back]
    rows["arrival"][back] = first_seq + np.argsort(np.argsort(t4[back], kind="stable"))
    tardy = np.flatnonzero((rows["fate"] == Fate.LOST) & (rng.random(n) < late))
    rows["received_ns"][tardy] = t4[tardy] + 10_000_000_000
    rows["forward_copies"][reached] = rng.random(reached.size) < duplicates
    rows["reverse_copies"][back] = rng.random(back.size) < duplicates
    rows["stamps"] = np.where(rng.random(n) < user_t3, Stamp.ALL_KERNEL & ~Stamp.T3_KERNEL, Stamp.ALL_KERNEL)
    assert np.all(rows["sent_ns"][~sent] == ABSENT)
    return rows


@pytest.fixture(scope="session")
def stream() -> StreamMaker:
    return make_stream
