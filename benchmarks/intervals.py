"""How often the intervals contain the truth, as tables: ``python -m benchmarks.intervals`` (or ``make bench-intervals``).

Campaigns are simulated whose truth is known, with few and many seed inputs and the distributions that intervals are known to fail on: rare
failures, mutants of one seed input that are alike, seed inputs of which nearly none fails and those that do fail always, ratios in which a
few seed inputs weigh most, counts that come in heaps. An interval at 95 % has to contain the truth in at least 94 % of the trials.

The second table asks the sequences for their worst case: the truth lies *at* the limit, the interval is looked at after every one of up to
2,000 observations, and the campaign stops as soon as it excludes the limit. That may come in at most 5 % of the trials (and what chance
adds to the trials: three standard errors). Beside it stands what the ordinary interval would do if one looked at it as often.

Everything is drawn from addresses, so that the tables come out the same again. ``--quick`` takes a tenth of the trials and judges nothing.
Exit 0: every interval holds; 1: one does not.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import special, stats

from gate.metrics.intervals import Interval, exact_quantile, exact_share, seed_bootstrap
from gate.metrics.paired_intervals import paired_mean, relative_rise
from gate.metrics.reweighting import reweighted_mean, reweighted_ratio
from gate.metrics.sequences import mean_sequence, quantile_sequence, ratio_sequence
from gate.randomness import generator

__all__ = ["FIXED", "LIMITS", "Fixed", "Limit", "coverage", "errors"]

Floats = NDArray[np.float64]
Random = np.random.Generator
Of = Callable[[Floats], Interval]

CONFIDENCE = 0.95
LEAST = 0.94
SIZES = (5, 20, 60, 190, 1000)
TRIALS = 1200
LOOKED = 200  # trials of a sequence
_CLEAR = 0.965
LOOKS = 2000
MUTANTS = 8  # of a seed input
SEED = 20261130


@dataclass(frozen=True)
class Fixed:
    """An interval after a fixed number of observations, and what is simulated. ``draw``: [n] or [n, 2]."""

    what: str
    name: str
    truth: float
    draw: Callable[[Random, int], Floats]
    interval: Of
    sizes: tuple[int, ...] = SIZES


@dataclass(frozen=True)
class Limit:
    """A sequence, looked at again and again, whose truth is the limit. ``interval`` after n is the intersection of those before."""

    what: str
    name: str
    truth: float
    draw: Callable[[Random, int], Floats]
    interval: Of


def _alike(mean: float, weight: float) -> Callable[[Random, int], Floats]:
    """Shares of failing mutants: each seed input has its own failure rate, the less weight the more all or nothing."""
    return lambda rng, n: rng.binomial(MUTANTS, rng.beta(mean * weight, (1 - mean) * weight, n)) / MUTANTS


def _inflated(some: float, rate: float) -> Callable[[Random, int], Floats]:
    """Most seed inputs never fail; of the mutants of the others a share does."""
    return lambda rng, n: (rng.random(n) < some) * rng.binomial(MUTANTS, rate, n) / MUTANTS


def _steps(**chances: float) -> tuple[float, Callable[[Random, int], Floats]]:
    """Values ``v<thousandths>`` with their chances, and zero otherwise: their mean, and how they are drawn."""
    values = np.array([0.0, *(int(name[1:]) / 1000 for name in chances)])
    odds = np.array([1 - sum(chances.values()), *chances.values()])
    return float(values @ odds), lambda rng, n: rng.choice(values, n, p=odds)


def _binary(share: float) -> Callable[[Random, int], Floats]:
    return lambda rng, n: (rng.random(n) < share).astype(np.float64)


def _poisson(mean: float) -> Callable[[Random, int], Floats]:
    return lambda rng, n: rng.poisson(mean, n).astype(np.float64)


def _heaps(rng: Random, n: int) -> Floats:
    return rng.poisson(rng.gamma(0.05, 4, n)).astype(np.float64)


def _threes(rng: Random, n: int) -> Floats:
    return ((rng.random(n) < 0.05) * rng.poisson(3, n)).astype(np.float64)


def _many_sizes(rng: Random, n: int) -> Floats:
    return rng.geometric(0.4, n).astype(np.float64)


def _few_heavy(rng: Random, n: int) -> Floats:
    return np.where(rng.random(n) < 0.05, 20.0, 1.0)


def _mean(values: Floats) -> Interval:
    return reweighted_mean(values, CONFIDENCE)


def _ratio(table: Floats) -> Interval:
    most = float(table[:, 1].max())
    return reweighted_ratio(table[:, 0], table[:, 1], CONFIDENCE, best=(0.0, most), worst=(most, most))


def _count(values: Floats) -> Interval:
    return reweighted_ratio(values, np.ones(len(values)), CONFIDENCE, best=(0.0, 1.0), worst=(float(values.max()) + 5, 1.0))


def _hits(sizes: Callable[[Random, int], Floats], rate: float, *, together: bool) -> Callable[[Random, int], Floats]:
    """[n, 2]: how many of a seed input's defects hit, and how many it has."""

    def draw(rng: Random, n: int) -> Floats:
        wholes = sizes(rng, n).astype(np.float64)
        parts = wholes * (rng.random(n) < rate) if together else rng.binomial(wholes.astype(np.int64), rate)
        return np.stack([parts, wholes], axis=1)

    return draw


def _flips(worse: float, better: float) -> Callable[[Random, int], Floats]:
    """Differences -1, 0 and 1."""
    return lambda rng, n: rng.choice([1.0, -1.0, 0.0], n, p=[worse, better, 1 - worse - better])


def _both(candidate: float, baseline: float, together: float) -> Callable[[Random, int], Floats]:
    """[n, 2]: whether a seed input fails with either model; ``together`` is the share that fails with both."""

    def draw(rng: Random, n: int) -> Floats:
        which = rng.choice(4, n, p=[together, candidate - together, baseline - together, 1 - candidate - baseline + together])
        return np.stack([which <= 1, (which == 0) | (which == 2)], axis=1).astype(np.float64)

    return draw


def _fixed() -> Iterator[Fixed]:
    for truth in (0.005, 0.02, 0.1, 0.3, 0.5):
        yield Fixed("share", f"{truth:.1%}", truth, _binary(truth), _share)
    for rate in (0.005, 0.02, 0.2):
        yield Fixed("mean", f"{rate:.1%}, alike within a seed input", rate, _alike(rate, 2.0), _mean)
    yield Fixed("mean", "20 %, all or nothing", 0.2, _alike(0.2, 0.2), _mean)
    yield Fixed("mean", "1 %: 2 % of the seed inputs fail half the time", 0.01, _inflated(0.02, 0.5), _mean)
    yield Fixed("mean", "1 %: 5 % of the seed inputs fail a fifth of the time", 0.01, _inflated(0.05, 0.2), _mean)
    for name, (truth, draw) in {
        "1.1 %: 5 % with 1/8, 0.5 % with 1": _steps(v125=0.05, v1000=0.005),
        "4.8 %: 30 % with 1/8, 1 % with 1": _steps(v125=0.3, v1000=0.01),
        "11 %: 90 % with 0.1, 2 % with 1": _steps(v100=0.9, v1000=0.02),
        "50.5 %: all with 0.5, 1 % with 1": _steps(v500=0.99, v1000=0.01),
    }.items():
        yield Fixed("mean", name, truth, draw, _mean)
    small = SIZES[:-1]
    for rate in (0.05, 0.3):
        for kind, sizes in (("many sizes", _many_sizes), ("a twentieth weighs 20", _few_heavy)):
            for together in (False, True):
                name = f"{rate:.0%}, {kind}, {'all of a seed input or none' if together else 'each by itself'}"
                yield Fixed("ratio", name, rate, _hits(sizes, rate, together=together), _ratio, small)
    for mean in (0.005, 0.02, 0.2, 1.0):
        yield Fixed("count", f"{mean:g} by seed input, independent", mean, _poisson(mean), _count)
    yield Fixed("count", "0.15: 5 % have 3", 0.15, _threes, _count)
    yield Fixed("count", "0.2, in heaps", 0.2, _heaps, _count)
    for name, worse, better in (("equal, 1 % flip", 0.005, 0.005), ("equal, 10 % flip", 0.05, 0.05), ("1 % worse", 0.0105, 0.0005)):
        yield Fixed("difference", name, worse - better, _flips(worse, better), lambda d: paired_mean(d, CONFIDENCE))
    yield Fixed(
        "difference",
        "equal, of mutants",
        0.0,
        lambda rng, n: _alike(0.1, 0.5)(rng, n) - _alike(0.1, 0.5)(rng, n),
        lambda d: paired_mean(d, CONFIDENCE),
    )
    for name, candidate, baseline, both in (("equal, 10 %", 0.1, 0.1, 0.07), ("twice 5 %", 0.1, 0.05, 0.04)):
        yield Fixed(
            "relative rise",
            name,
            candidate / baseline - 1,
            _both(candidate, baseline, both),
            lambda t: relative_rise(t[:, 0], t[:, 1], CONFIDENCE),
            (20, 60, 190, 1000),
        )
    yield Fixed("percentile", "5th, smooth", 0.05, lambda rng, n: rng.random(n), _percentile)
    # 4 % at 0.1, then 2 % at 0.2: the 5th percentile is 0.2.
    yield Fixed(
        "percentile", "5th, in steps", 0.2, lambda rng, n: rng.choice([0.1, 0.2, 0.6, 1.0], n, p=[0.04, 0.02, 0.14, 0.8]), _percentile
    )


def _limits() -> Iterator[Limit]:
    for truth in (0.005, 0.02, 0.1, 0.5):
        yield Limit("share", f"{truth:.1%}", truth, _binary(truth), _sequence)
    yield Limit("mean", "2.0%, alike within a seed input", 0.02, _alike(0.02, 2.0), _sequence)
    yield Limit("mean", "20 %, alike within a seed input", 0.2, _alike(0.2, 2.0), _sequence)
    truth, draw = _steps(v125=0.05, v1000=0.005)
    yield Limit("mean", "1.1 %: 5 % with 1/8, 0.5 % with 1", truth, draw, _sequence)
    for name, worse, better in (("equal, 1 % flip", 0.005, 0.005), ("equal, 10 % flip", 0.05, 0.05), ("2 % worse", 0.025, 0.005)):
        yield Limit("difference", name, worse - better, _flips(worse, better), lambda d: paired_mean(d, CONFIDENCE, anytime=True))
    yield Limit("relative rise", "equal, 10 %", 1.0, _both(0.1, 0.1, 0.07), lambda t: ratio_sequence(t[:, 0], t[:, 1], CONFIDENCE))
    yield Limit("percentile", "5th, smooth", 0.05, lambda rng, n: rng.random(n), lambda x: quantile_sequence(x, 5, CONFIDENCE))
    yield Limit(
        "percentile",
        "5th, in steps",
        0.2,
        lambda rng, n: rng.choice([0.1, 0.2, 0.6, 1.0], n, p=[0.04, 0.02, 0.14, 0.8]),
        lambda x: quantile_sequence(x, 5, CONFIDENCE),
    )


def _share(values: Floats) -> Interval:
    return exact_share(int(values.sum()), len(values), CONFIDENCE)


def _sequence(values: Floats) -> Interval:
    return mean_sequence(values, CONFIDENCE)


def _percentile(values: Floats) -> Interval:
    return exact_quantile(values, 5, CONFIDENCE, support=(0.0, 1.0))


FIXED = tuple(_fixed())
LIMITS = tuple(_limits())


def coverage(case: Fixed, n: int, trials: int) -> float:
    """In what share of the trials the interval contains the truth; of so many, where a sixth of them leave no doubt, of the sixth."""
    inside = 0
    for trial in range(trials):
        lower, upper = case.interval(case.draw(generator(SEED, case.what, case.name, n, trial), n))
        inside += lower - 1e-9 <= case.truth <= upper + 1e-9
        if 6 * (trial + 1) == trials and inside / (trial + 1) >= _CLEAR:
            return inside / (trial + 1)
    return inside / trials


def errors(case: Limit, trials: int) -> float:
    """In what share of the trials some interval, of all those up to 2,000 observations, excludes the limit."""
    outside = 0
    for trial in range(trials):
        lower, upper = case.interval(case.draw(generator(SEED, "limit", case.what, case.name, trial), LOOKS))
        outside += not lower - 1e-9 <= case.truth <= upper + 1e-9
    return outside / trials


def _looking_at_wilson(truth: float, trials: int) -> float:
    """The same of the score interval of a share, which is not made for it; from 20 observations on."""
    z = float(special.ndtri((1 + CONFIDENCE) / 2))
    outside = 0
    for trial in range(trials):
        n = np.arange(1, LOOKS + 1)
        seen = np.cumsum(generator(SEED, "looking", f"{truth}", trial).random(LOOKS) < truth)
        outside += bool((np.abs(seen - n * truth)[19:] > z * np.sqrt(n * truth * (1 - truth))[19:]).any())
    return outside / trials


def _of_formulas(sizes: tuple[int, ...]) -> Iterator[tuple[str, list[float]]]:
    """Coverage of a share's intervals, exactly: the least over a grid of truths, by n."""
    truths = np.unique(np.concatenate([np.linspace(0.0005, 0.1, 200), np.linspace(0.1, 0.5, 100)]))
    z = float(special.ndtri((1 + CONFIDENCE) / 2))
    for name in ("Wilson", "exact"):
        least = []
        for n in sizes:
            k = np.arange(n + 1)
            if name == "exact":
                bounds = np.array([exact_share(int(one), n, CONFIDENCE) for one in k])
            else:
                half = z * np.sqrt(k * (n - k) / n + z * z / 4)
                bounds = np.stack([(k + z * z / 2 - half) / (n + z * z), (k + z * z / 2 + half) / (n + z * z)], axis=1)
                bounds[0, 0], bounds[n, 1] = 0.0, 1.0
            held = [stats.binom.pmf(k, n, p)[(bounds[:, 0] <= p) & (p <= bounds[:, 1])].sum() for p in truths]
            least.append(float(min(held)))
        yield name, least


def _of_bootstrap(trials: int) -> list[float]:
    """What the percentile bootstrap makes of rare failures, by n."""
    draw, found = _alike(0.02, 2.0), []
    for n in SIZES:
        inside = 0
        for trial in range(trials):
            rng = generator(SEED, "bootstrap", n, trial)
            values = draw(rng, n)
            lower, upper = seed_bootstrap(values, np.ones(n), CONFIDENCE, rng) or (values[0], values[0])
            inside += lower <= 0.02 <= upper
        found.append(inside / trials)
    return found


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the trials; judges nothing")
    quick = parser.parse_args().quick
    trials, looked = (TRIALS // 10, LOOKED // 10) if quick else (TRIALS, LOOKED)
    console, failed = Console(width=130, highlight=False), False

    table = Table(title=f"Share of {trials // 6:,} to {trials:,} trials in which a 95 % interval contains the truth")
    for column in ("interval", "truth", *(f"n = {n}" for n in SIZES)):
        table.add_column(column)
    for case in FIXED:
        cells = []
        for n in SIZES:
            if n not in case.sizes:
                cells.append("")
                continue
            held = coverage(case, n, trials)
            failed = failed or held < LEAST
            cells.append(f"{held:.1%}" + (" !" if held < LEAST else ""))
        table.add_row(case.what, case.name, *cells)
        console.print(case.what, case.name, *cells, sep=" | ")
    for name, least in _of_formulas(SIZES):
        table.add_row(f"share, {name}", "the least over truths from 0.05 to 50 %, computed", *(f"{one:.1%}" for one in least))
    table.add_row("percentile bootstrap", "2.0%, alike within a seed input", *(f"{one:.1%}" for one in _of_bootstrap(trials // 6)))
    console.print(table)

    slack = 3 * math.sqrt(0.05 * 0.95 / looked)
    table = Table(title=f"Share of {looked:,} trials in which a 95 % sequence excludes the truth at any of {LOOKS:,} looks")
    for column in ("sequence", "truth", "excluded"):
        table.add_column(column)
    for limit in LIMITS:
        wrong = errors(limit, looked)
        failed = failed or wrong > 1 - CONFIDENCE + slack
        table.add_row(limit.what, limit.name, f"{wrong:.1%}" + (" !" if wrong > 1 - CONFIDENCE + slack else ""))
        console.print(limit.what, limit.name, f"{wrong:.1%}", sep=" | ")
    for truth in (0.02, 0.1):
        table.add_row("share, Wilson, looked at as often", f"{truth:.1%}", f"{_looking_at_wilson(truth, looked):.1%}")
    console.print(table)
    if quick:
        return 0
    console.print("Every interval holds." if not failed else "An interval does not hold: see the marks.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
