"""The classes that a policy says must not be missed: names in its file, positions among the model's classes in a run."""

from __future__ import annotations

from collections.abc import Sequence

from gate.errors import PolicyError
from gate.policy.load import LoadedPolicy
from gate.policy.schema import Policy
from gate.strict_yaml import nearest

__all__ = ["check_positive", "positive_positions"]

_SHOWN = 10  # names in a message


def positive_positions(policy: Policy, classes: Sequence[str]) -> tuple[int, ...]:
    """Positions of the positive classes, ascending; names that the model does not have are left out (``check_positive`` refuses them)."""
    return tuple(position for position, name in enumerate(classes) if name in policy.positive)


def check_positive(loaded: LoadedPolicy, classes: Sequence[str]) -> None:
    """Refuses positive classes that can't be missed.

    Args:
        loaded: the policy.
        classes: of the model, in its order.

    Raises:
        PolicyError: a name is no class of the model, or all classes are named.
    """
    positive = loaded.policy.positive
    for name in positive:
        if name not in classes:
            close = nearest(name, classes)
            known = ", ".join(classes[:_SHOWN]) + (", …" if len(classes) > _SHOWN else "")
            raise PolicyError(
                f"The policy's positive class {name!r} is none of the model's {len(classes)} classes.",
                where=f"{loaded.info.source}: positive",
                hint=f"Did you mean {close!r}?" if close else f"Classes: {known}.",
            )
    if positive and len(positive) == len(classes):
        raise PolicyError(
            "The policy names every class of the model as positive, so that none could ever be missed.",
            where=f"{loaded.info.source}: positive",
            hint="Leave out the classes that stand for nothing found.",
        )
