"""LSA, DSA and MDSA against scipy, plain NumPy and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import gaussian_kde
from sklearn.covariance import EmpiricalCovariance

from gate.coverage import criterion
from gate.coverage.dsa import DistanceSurprise
from gate.coverage.lsa import LikelihoodSurprise
from gate.coverage.mdsa import MahalanobisSurprise
from gate.coverage.surprise import SurpriseCriterion


def _data(seed: int, samples: int, neurons: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (samples,), generator=g) * 2  # classes 0, 2 and 4
    mix = torch.randn(neurons, neurons, generator=torch.Generator().manual_seed(99))
    return torch.randn(samples, neurons, generator=g) @ mix + y[:, None], y


def _made(name: str, profile: torch.Tensor, y: torch.Tensor, **options: Any) -> Any:
    made = criterion(name, **options).fit({"a": profile[:, :4], "b": profile[:, 4:]}, y)
    assert isinstance(made, SurpriseCriterion)
    return made


def _surprise(c: SurpriseCriterion, probe: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    return c.surprise({"a": probe[:, :4], "b": probe[:, 4:]}, torch.nn.functional.one_hot(y, 5).float()).numpy()


def _wide(values: torch.Tensor) -> np.ndarray:
    return values.double().numpy()


def test_likelihood_is_scipys_kernel_density() -> None:
    (profile, y), (probe, p) = _data(0, 200), _data(1, 40)
    c: LikelihoodSurprise = _made("lsa", profile, y)
    expected = [-gaussian_kde(_wide(profile[y == label]).T).logpdf(_wide(row))[0] for row, label in zip(probe, p, strict=True)]
    np.testing.assert_allclose(_surprise(c, probe, p), expected, rtol=1e-9)
    assert c.shrunk == []


def test_likelihood_far_away_is_a_number_and_no_infinity() -> None:
    profile, y = _data(0, 200)
    c: LikelihoodSurprise = _made("lsa", profile, y)
    far = _surprise(c, 1e4 * torch.ones(1, 7), torch.tensor([0]))
    assert np.isfinite(far).all()
    assert far > 1e5  # there scipy's density is 0 and its logarithm infinite or not, by version


def test_neurons_that_hardly_vary_or_vary_least_are_left_out() -> None:
    (profile, y), (probe, p) = _data(0, 200), _data(1, 20)
    profile[:, 2], profile[:, 5] = 0.5 + 1e-4 * profile[:, 2], 3 * profile[:, 5]
    c: LikelihoodSurprise = _made("lsa", profile, y)
    kept = [n for n in range(7) if n != 2]
    expected = [
        -gaussian_kde(_wide(profile[y == label][:, kept]).T).logpdf(_wide(row[kept]))[0] for row, label in zip(probe, p, strict=True)
    ]
    np.testing.assert_allclose(_surprise(c, probe, p), expected, rtol=1e-9)
    fewer: LikelihoodSurprise = _made("lsa", profile, y, max_neurons=2)
    most = np.sort(np.argsort(-_wide(profile).var(0))[:2])
    expected = [
        -gaussian_kde(_wide(profile[y == label])[:, most].T).logpdf(_wide(row)[most])[0] for row, label in zip(probe, p, strict=True)
    ]
    np.testing.assert_allclose(_surprise(fewer, probe, p), expected, rtol=1e-9)


def test_a_class_with_few_references_gets_a_shrunk_covariance() -> None:
    profile, y = _data(0, 200)
    few = (y != 4) | (torch.cumsum(y == 4, 0) <= 5)  # 5 references for 7 neurons
    profile, y = profile[few], y[few]
    c: LikelihoodSurprise = _made("lsa", profile, y)
    assert c.shrunk == [4]
    rows = _wide(profile[y == 4])
    covariance = (0.9 * np.cov(rows.T) + 0.1 * np.diag(_wide(profile).var(0))) * 5 ** (-2 / 11)
    probe, _ = _data(1, 10)
    differences = _wide(probe)[:, None] - rows
    energies = -0.5 * np.einsum("nij,jk,nik->ni", differences, np.linalg.inv(covariance), differences)
    expected = -np.log(np.exp(energies).mean(1)) + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    np.testing.assert_allclose(_surprise(c, probe, torch.full((10,), 4)), expected, rtol=1e-9)


def _plain_dsa(profile: np.ndarray, y: np.ndarray, row: np.ndarray, label: int) -> float:
    same, other = profile[y == label], profile[y != label]
    distances = np.linalg.norm(same - row, axis=1)
    nearest = same[distances.argmin()]
    return float(distances.min() / np.linalg.norm(other - nearest, axis=1).min())


def test_distances_are_the_plain_ones() -> None:
    (profile, y), (probe, p) = _data(0, 200), _data(1, 60)
    c: DistanceSurprise = _made("dsa", profile, y)
    expected = [_plain_dsa(_wide(profile), y.numpy(), _wide(row), int(label)) for row, label in zip(probe, p, strict=True)]
    np.testing.assert_allclose(_surprise(c, probe, p), expected, rtol=1e-12)
    np.testing.assert_allclose(_surprise(c, probe[:7], p[:7]), expected[:7], rtol=1e-12)
    assert _surprise(c, profile, y).tolist() == [0.0] * 200


def test_distances_keep_their_digits_far_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gate.coverage.dsa._CHUNK", 7 * 13)  # references in several parts
    (profile, y), (probe, p) = _data(0, 200), _data(1, 60)
    profile, probe = profile + 3e4, probe + 3e4
    c: DistanceSurprise = _made("dsa", profile, y)
    expected = [_plain_dsa(_wide(profile), y.numpy(), _wide(row), int(label)) for row, label in zip(probe, p, strict=True)]
    np.testing.assert_allclose(_surprise(c, probe, p), expected, rtol=1e-12)
    others = [_plain_dsa(_wide(profile[rest]), y[rest].numpy(), _wide(profile[i]), int(y[i])) for i, rest in _without(200)]
    assert c.bounds == pytest.approx((0.0, 2 * np.quantile(others, 0.99)), rel=1e-12)


def _without(number: int) -> list[tuple[int, torch.Tensor]]:
    return [(i, torch.arange(number) != i) for i in range(number)]


def test_equal_references_in_two_classes_are_no_number_or_beyond_all() -> None:
    profile = torch.tensor([[0.0] * 7, [0.0] * 7, [5.0] * 7])
    c: DistanceSurprise = _made("dsa", profile, torch.tensor([0, 2, 2]), upper=2.0)
    found = _surprise(c, torch.tensor([[0.0] * 7, [1.0] * 7]), torch.tensor([0, 0]))
    assert np.isnan(found[0])
    assert np.isinf(found[1])
    rows = {"a": torch.ones(1, 4), "b": torch.ones(1, 3)}
    assert c.update(rows, torch.tensor([[1.0, 0.0, 0.0]])).tolist() == [0]


@pytest.mark.parametrize("covariance", ["class", "shared"])
def test_mahalanobis_is_scikit_learns(covariance: str) -> None:
    (profile, y), (probe, p) = _data(0, 200), _data(1, 40)
    c: MahalanobisSurprise = _made("mdsa", profile, y, covariance=covariance)
    wide, labels = _wide(profile), y.numpy()
    means = {label: wide[labels == label].mean(0) for label in (0, 2, 4)}
    centred = wide - np.stack([means[label] for label in labels])
    models = {
        label: EmpiricalCovariance(assume_centered=True).fit(centred if covariance == "shared" else centred[labels == label])
        for label in means
    }
    expected = [
        np.sqrt(models[int(label)].mahalanobis((_wide(row) - means[int(label)])[None])[0]) for row, label in zip(probe, p, strict=True)
    ]
    np.testing.assert_allclose(_surprise(c, probe, p), expected, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["class", "shared"])
def test_a_reference_is_measured_against_the_others(covariance: str) -> None:
    profile, y = _data(0, 60)
    c: MahalanobisSurprise = _made("mdsa", profile, y, covariance=covariance)
    expected = []
    for i, rest in _without(60):
        alone = _made("mdsa", profile[rest], y[rest], covariance=covariance, upper=1.0)
        expected.append(float(_surprise(alone, profile[i : i + 1], y[i : i + 1])[0]))
    assert c.bounds == pytest.approx((0.0, 2 * np.quantile(expected, 0.99)), rel=1e-9)


def test_likelihood_bounds_leave_each_reference_out_of_its_own_density() -> None:
    profile, y = _data(0, 90)
    c: LikelihoodSurprise = _made("lsa", profile, y)
    own = _surprise(c, profile, y)
    without = []
    for label in (0, 2, 4):
        rows = _wide(profile[y == label])
        kde = gaussian_kde(rows.T)
        for i in range(len(rows)):
            energies = [-0.5 * (d := rows[i] - rows[j]) @ kde.inv_cov @ d for j in range(len(rows)) if j != i]
            without.append(-np.log(np.exp(energies).mean()) + 0.5 * np.linalg.slogdet(2 * np.pi * kde.covariance)[1])
    assert c.bounds == pytest.approx((own.min(), own.min() + 2 * (np.quantile(without, 0.99) - own.min())), rel=1e-9)


def test_directions_without_any_variation_count_no_distance() -> None:
    profile, y = _data(0, 200)
    profile[:, 6] = profile[:, 5]  # singular in every class
    c: MahalanobisSurprise = _made("mdsa", profile, y)
    probe, p = _data(1, 20)
    rows = {label: _wide(profile[y == label]) for label in (0, 2, 4)}
    expected = []
    for row, label in zip(_wide(probe), p.tolist(), strict=True):
        apart = row - rows[label].mean(0)
        inverse = np.linalg.pinv(np.cov(rows[label].T, bias=True), rcond=1e-10, hermitian=True)
        expected.append(np.sqrt(apart @ inverse @ apart))
    np.testing.assert_allclose(_surprise(c, probe, p), expected, rtol=1e-7)
