"""linkqual qualifies dedicated lines for AI training and inference: both directions, real packets, a verdict with its proof."""

__version__ = "0.1.0"
