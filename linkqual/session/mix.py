"""Packets of several sizes in one stream, drawn by weight: which size packet i has follows from the seed and i alone. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_BLOCK = 4096
_STREAM = 1  # a generator of its own beside the schedule's, which draws from the same seed

Weights = Sequence[Sequence[int]]  # [[octets of UDP payload, weight], ...]


def mean_bytes(weights: Weights) -> float:
    """Mean size, octets."""
    return sum(size * weight for size, weight in weights) / sum(weight for _, weight in weights)


class Mix:
    """`kinds`: places in `sizes`, which ascend."""

    def __init__(self, weights: Weights, seed: int) -> None:
        self.sizes = np.array(sorted(size for size, _ in weights), np.int64)
        share = np.array([weight for _, weight in sorted((size, weight) for size, weight in weights)], np.float64)
        share /= share.sum()

        @lru_cache(maxsize=2)  # a batch of departures touches two blocks at most
        def drawn(block: int) -> npt.NDArray[np.int64]:
            return np.random.default_rng((seed, _STREAM, block)).choice(len(share), _BLOCK, p=share)

        self._drawn = drawn

    def kinds(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """Of packets first .. first + count - 1; `count` is at most 4096."""
        block, at = divmod(first, _BLOCK)
        if at + count <= _BLOCK:
            return self._drawn(block)[at : at + count]
        fits = _BLOCK - at
        return np.concatenate([self._drawn(block)[at:], self._drawn(block + 1)[: count - fits]])
