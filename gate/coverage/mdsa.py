"""MDSA: surprise as the Mahalanobis distance from the mean of the class, that is the distance in units of how far the class spreads.

Source: Kim, Ju, Feldt, Yoo, "Reducing DNN labelling cost using surprise adequacy: an industrial case study for autonomous driving",
ESEC/FSE 2020.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from gate.coverage.surprise import SINGULAR, SurpriseCriterion, check_above_zero, checked_choice, chosen_neurons

__all__ = ["MahalanobisSurprise"]


class MahalanobisSurprise(SurpriseCriterion):
    """√((a - μ)ᵀ C⁺ (a - μ)) with the mean μ of the class's references and their covariance C in population form. Squared, these are the
    numbers of scikit-learn's ``EmpiricalCovariance``.

    C⁺ is the pseudo-inverse: along a direction in which the references do not vary, no distance counts. With no more references than
    neurons there are such directions, so keep ``max_neurons`` well below the number of references of a class, or share the covariance.

    For the bounds, a reference is measured against the others of its class (by a rank-one change of C), where they still vary along all
    the directions in which they did with it, and else against all. A class needs two references.

    Args:
        sections: see ``SurpriseCriterion``.
        references: see ``SurpriseCriterion``.
        upper: see ``SurpriseCriterion``.
        covariance: ``class``, each class its own; ``shared``, one of all deviations from the class means, which asks for fewer references.
        var_threshold: neurons with a smaller variance over all references are left out, and with 0 those that never vary.
        max_neurons: of the others, the ones with the largest variance, at most so many; None: all. Costs grow with its square.
    """

    name: ClassVar[str] = "mdsa"
    least: ClassVar[int] = 2

    def __init__(
        self,
        *,
        sections: int = 100,
        references: int = 1000,
        upper: float | None = None,
        covariance: Literal["class", "shared"] = "class",
        var_threshold: float = 1e-5,
        max_neurons: int | None = 100,
    ) -> None:
        super().__init__(sections=sections, references=references, upper=upper)
        check_above_zero(upper)
        if covariance not in ("class", "shared"):
            raise ValueError(f"covariance must be 'class' or 'shared', not {covariance!r}")
        self._covariance = covariance
        self._threshold, self._neurons_kept = checked_choice(var_threshold, max_neurons)
        self._chosen = torch.zeros(0, dtype=torch.int64)  # [d]
        self._means = torch.zeros(0, 0, dtype=torch.float64)  # [K, d]
        self._whitening = torch.zeros(0, 0, 0, dtype=torch.float64)  # [K or 1, d, d]: times its transpose it is C⁺

    @property
    def options(self) -> dict[str, Any]:
        """sections, references, upper, covariance, var_threshold and max_neurons."""
        return {
            **super().options,
            "covariance": self._covariance,
            "var_threshold": self._threshold,
            "max_neurons": self._neurons_kept,
        }

    def _derive(self) -> None:
        references = self._references
        self._chosen = chosen_neurons(self.name, references, self._threshold, self._neurons_kept)
        rows = references[:, self._chosen].double()
        means, scatters = [], []
        for start, stop in zip(self._starts, self._starts[1:], strict=False):
            means.append(rows[start:stop].mean(0))
            centred = rows[start:stop] - means[-1]
            scatters.append(centred.T @ centred)
        self._means = torch.stack(means)
        if self._covariance == "shared":
            covariances = [torch.stack(scatters).sum(0) / len(rows)]
        else:
            covariances = [scatter / (stop - start) for scatter, start, stop in zip(scatters, self._starts, self._starts[1:], strict=False)]
        self._whitening = torch.stack([_root_of_inverse(covariance) for covariance in covariances])

    def _within(self, index: int, rows: Tensor, own: Tensor | None) -> Tensor:
        shared = self._covariance == "shared"
        apart = rows[:, self._chosen].double() - self._means[index]
        squared = (apart @ self._whitening[0 if shared else index]).square().sum(1)
        if own is None:
            return squared.sqrt()
        n = self._starts[index + 1] - self._starts[index]
        total = self._starts[-1] if shared else n
        # Without a reference at the distance e from the mean, the mean moves by e / (n-1) and the scatter loses n/(n-1) eeᵀ; the inverse
        # of that follows by Sherman and Morrison. ``pull`` is eᵀ (scatter)⁺ e; at 1 a direction is lost.
        pull = squared / total * n / (n - 1)
        lost = pull > 1 - 1e-6
        without = (total - 1) * n / (n - 1) * pull / (1 - pull).masked_fill(lost, 1)
        return torch.where(lost, squared, without).sqrt()


def _root_of_inverse(covariance: Tensor) -> Tensor:
    """float64 [d, d]: W with W Wᵀ the pseudo-inverse."""
    values, vectors = torch.linalg.eigh(covariance)
    kept = values > SINGULAR * values[-1].clamp(min=0)
    root: Tensor = vectors * torch.where(kept, values.masked_fill(~kept, 1).rsqrt(), 0)
    return root
