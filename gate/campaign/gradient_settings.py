"""From the settings to how the search follows gradients: of what is not covered, and of the margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gate.campaign.ascent_options import Ascent
from gate.campaign.descent_options import Descent
from gate.config import SearchSettings

__all__ = ["ascents_of", "descent_of"]


def ascents_of(settings: SearchSettings, usual: Sequence[Ascent]) -> tuple[Ascent, ...]:
    """The usual ways to climb with what the settings say in place of what they have."""
    return tuple(
        replace(
            one,
            direction=settings.direction,
            step_size=one.step_size if settings.step_size is None else settings.step_size,
            num_steps=one.num_steps if settings.ascent_steps is None else settings.ascent_steps,
        )
        for one in usual
    )


def descent_of(settings: SearchSettings) -> Descent:
    """How to descend."""
    usual = Descent()
    return replace(
        usual,
        direction=settings.direction,
        step_size=settings.step_size,
        num_steps=usual.num_steps if settings.ascent_steps is None else settings.ascent_steps,
    )
