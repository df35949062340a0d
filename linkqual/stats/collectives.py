"""What training sends between sites: bytes of a gradient synchronisation from the size of a model.

All-reduce over N ranks moves 2(N-1)/N of the buffer for each rank when it is bandwidth-optimal (ring: Patarasuk and Yuan 2009). Between D sites
the hierarchical form reduces inside each site first, so that 2(D-1)/D of one whole buffer crosses each site's line in each
direction, however many ranks there are; one flat ring over all ranks sends 2(N-1)/N of it over every crossing. Floor 1, pure.
"""

from __future__ import annotations

DTYPE_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}


def gradient_bytes(parameters: float, dtype: str) -> int:
    """One gradient of the whole model: 10e9 parameters in bf16 are 20 GB."""
    return round(parameters * DTYPE_BYTES[dtype])


def all_reduce_share(members: int) -> float:
    """2(n-1)/n: of the buffer, sent by each of n members (ranks of a ring, or sites of a hierarchy)."""
    if members < 2:
        raise ValueError("an all-reduce has at least two members")
    return 2 * (members - 1) / members


def between_sites(buffer_bytes: float, sites: int, ranks: int = 0) -> float:
    """Bytes over one site's line, each direction, for one all-reduce; `ranks`: of a flat ring over all of them, 0: hierarchical."""
    return all_reduce_share(ranks or sites) * buffer_bytes
