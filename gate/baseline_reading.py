"""Whether the baseline reads the clean samples at all.

What both models get wrong is known, and known failures may be excused. A baseline with its classes in another order, or one that gives the
same answer to everything, gets nearly all wrong, and would excuse whatever the candidate gets wrong: that is no model in production, but a
mistake in how it is named or read.
"""

from __future__ import annotations

from gate.campaign.preflight import LOW
from gate.errors import ConfigError
from gate.metrics.intervals import exact_share

__all__ = ["need_a_reader"]

_CONFIDENCE = 0.95  # of the interval that guessing must lie below


def need_a_reader(right: int, samples: int, classes: int) -> None:
    """Does nothing where the baseline reads at least half of the samples rightly, or surely more than guessing does.

    Args:
        right: samples that it reads rightly.
        samples: that it was run on.
        classes: that there are.

    Raises:
        ConfigError: it does no better than guessing.
    """
    if not samples or right >= LOW * samples or exact_share(right, samples, _CONFIDENCE)[0] > 1 / max(classes, 1):
        return
    raise ConfigError(
        f"The baseline reads {right:,} of {samples:,} clean samples rightly, no more than guessing does; are its classes in another order?",
        where="baseline",
        hint="Give a baseline with the candidate's classes in the same order, which takes the same input.",
    )
