"""LSA: surprise as unlikelihood, the negative logarithm of a density estimated from the profile samples of the same class.

Source: Kim, Feldt, Yoo, "Guiding deep learning system testing using surprise adequacy", ICSE 2019; the width of the kernels after Scott,
"Multivariate density estimation", 1992.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from gate.coverage.surprise import SINGULAR, SurpriseCriterion, checked_bound, checked_choice, chosen_neurons

__all__ = ["LikelihoodSurprise"]

_SHRINKAGE = 0.1


class LikelihoodSurprise(SurpriseCriterion):
    """-log p(a), p being the mean of Gaussian kernels on the n references of the class. Over d neurons the covariance of the kernels is
    that of these references (divided by n - 1) times n^(-2 / (d + 4)). The numbers are those of ``scipy.stats.gaussian_kde``.

    Can be negative: a density is no probability. It grows with d, so it compares within one criterion only.

    **Few references.** Where the covariance of a class is singular, as it must be with no more references than neurons, scipy gives up.
    Here a tenth of it is replaced by the variances that the neurons have over all references, for that class alone; see ``shrunk``.

    A class needs two references.

    Args:
        sections: see ``SurpriseCriterion``.
        references: see ``SurpriseCriterion``.
        upper: see ``SurpriseCriterion``.
        lower: of the bounds; None: the lowest surprise of a reference.
        var_threshold: neurons with a smaller variance over all references are left out, and with 0 those that never vary.
        max_neurons: of the others, the ones with the largest variance, at most so many; None: all. Costs grow with its square.
    """

    name: ClassVar[str] = "lsa"
    least: ClassVar[int] = 2

    def __init__(
        self,
        *,
        sections: int = 100,
        references: int = 1000,
        upper: float | None = None,
        lower: float | None = None,
        var_threshold: float = 1e-5,
        max_neurons: int | None = 100,
    ) -> None:
        super().__init__(sections=sections, references=references, upper=upper)
        self._given_lower = checked_bound("lower", lower)
        if lower is not None and upper is not None and not lower < upper:
            raise ValueError(f"upper must be above lower, not {upper} and {lower}")
        self._threshold, self._neurons_kept = checked_choice(var_threshold, max_neurons)
        self._chosen = torch.zeros(0, dtype=torch.int64)  # [d]
        self._whitening = torch.zeros(0, 0, 0, dtype=torch.float64)  # [K, d, d]: a @ it has the unit matrix as a kernel's covariance
        self._white = torch.zeros(0, 0, dtype=torch.float64)  # [R, d]: the references, so whitened
        self._constants = torch.zeros(0, dtype=torch.float64)  # [K]: half the logarithm of det(2π · the kernels' covariance)
        self._shrunk = torch.zeros(0, dtype=torch.bool)  # [K]

    @property
    def options(self) -> dict[str, Any]:
        """sections, references, upper, lower, var_threshold and max_neurons."""
        return {**super().options, "lower": self._given_lower, "var_threshold": self._threshold, "max_neurons": self._neurons_kept}

    @property
    def shrunk(self) -> list[int]:
        """The classes whose covariance is singular by itself, so that it was shrunk."""
        self._prepare()
        classes: list[int] = self._labels[self._shrunk].tolist()
        return classes

    def _lower(self) -> float | None:
        return self._given_lower

    def _derive(self) -> None:
        references = self._references
        self._chosen = chosen_neurons(self.name, references, self._threshold, self._neurons_kept)
        rows = references[:, self._chosen].double()
        everywhere = rows.var(0, correction=0).diag()
        d = len(self._chosen)
        whitening, white, constants, shrunk = [], [], [], []
        for start, stop in zip(self._starts, self._starts[1:], strict=False):
            part, n = rows[start:stop], stop - start
            centred = part - part.mean(0)
            covariance = centred.T @ centred / max(1, n - 1)
            lowest, highest = torch.linalg.eigvalsh(covariance)[[0, -1]].tolist()
            singular = not lowest > SINGULAR * highest
            if singular:
                covariance = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * everywhere
            factor = torch.linalg.cholesky(covariance * n ** (-2 / (d + 4)))
            whitening.append(torch.linalg.solve_triangular(factor, torch.eye(d, dtype=rows.dtype, device=rows.device), upper=False).T)
            white.append(part @ whitening[-1])
            constants.append(factor.diagonal().log().sum() + d / 2 * math.log(2 * math.pi))
            shrunk.append(singular)
        self._whitening, self._white, self._constants = torch.stack(whitening), torch.cat(white), torch.stack(constants)
        self._shrunk = torch.tensor(shrunk, device=rows.device)

    def _within(self, index: int, rows: Tensor, own: Tensor | None) -> Tensor:
        start, stop = self._starts[index], self._starts[index + 1]
        white = rows[:, self._chosen].double() @ self._whitening[index]
        apart = torch.cdist(white, self._white[start:stop], compute_mode="donot_use_mm_for_euclid_dist")
        energy = -apart.square() / 2
        if own is not None:
            energy = energy.scatter(1, own[:, None], -torch.inf)
        number = stop - start - (own is not None)
        return self._constants[index] + math.log(number) - torch.logsumexp(energy, 1)
