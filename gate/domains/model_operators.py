"""The operators that the model takes part in: family, norm of the bound, work, and what the model must offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["MODEL_OPERATORS", "ModelOperator"]


@dataclass(frozen=True)
class ModelOperator:
    """One of them. Work is counted in forward-equivalents: a forward pass of one sample is 1, the backward pass after it 2 more."""

    family: str
    norm: Literal["linf", "l2"]  # l2: Euclidean norm over the square root of the number of values; both as a share of the value range
    steps: int
    calls: int  # the most that making one mutant takes; its execution comes on top
    needs: Literal["answers", "gradients", "steering"]  # steering: gradients, and a criterion that says which way a neuron has to move

    def usable(self, *, gradients: bool, steerable: bool) -> bool:
        """Whether it is of use for a model with or without gradients, and criteria that can or can't steer.

        What needs answers alone is for models without gradients: where there are some, the others find the same for less work.
        """
        return {"answers": not gradients, "gradients": gradients, "steering": gradients and steerable}[self.needs]

    @property
    def cost(self) -> int:
        """Forward-equivalents of one mutant, its execution included."""
        return self.calls + 1


# See gate/campaign/attacks.py for where the numbers come from.
MODEL_OPERATORS = {
    "fgsm": ModelOperator("adversarial", "linf", steps=1, calls=3, needs="gradients"),
    "pgd": ModelOperator("adversarial", "linf", steps=10, calls=30, needs="gradients"),
    "deepfool": ModelOperator("adversarial", "l2", steps=3, calls=22, needs="gradients"),
    "deepfool_linf": ModelOperator("adversarial", "linf", steps=3, calls=22, needs="gradients"),
    "carlini_wagner": ModelOperator("adversarial", "l2", steps=10, calls=63, needs="gradients"),
    "boundary": ModelOperator("adversarial", "l2", steps=60, calls=80, needs="answers"),
    "coverage_gradient": ModelOperator("coverage_gradient", "linf", steps=5, calls=15, needs="steering"),
}
