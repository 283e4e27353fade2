"""Features in two dimensions: how mutants lie between the classes.

t-SNE, which keeps neighbours together and says nothing of distances far apart. Source: van der Maaten and Hinton, "Visualizing data using
t-SNE", JMLR 9, 2008, as scikit-learn has it; begun from principal components, so that the large picture does not hang on a draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gate.randomness import integer
from gate.result import Defect, FeatureMap, MapPoint
from gate.triage.feature_space import FeatureSample, by_turns

__all__ = ["FEWEST_POINTS", "MAP_MUTANTS", "feature_map"]

MAP_MUTANTS = 300
FEWEST_POINTS = 12
PERPLEXITY = 30.0  # neighbours that each point minds, about; a third of the points where there are few
STEPS = 500
COMPONENTS = 50  # what the first principal components leave out is mostly noise, and costs time
_METHOD = "t-SNE"
_BEGIN = 1e-4  # standard deviation of the places that the first component gives at the start, so that all may still move
_PLACES = 4  # decimal places of a coordinate


def feature_map(sample: FeatureSample, defects: Sequence[Defect], campaign_seed: int, *, late: bool) -> FeatureMap:
    """Mutants, spread over root causes, between seed inputs; coordinates from 0 to 1, rounded. The same sample gives the same map.

    Args:
        sample: what has features.
        defects: all, of which the sample holds some.
        campaign_seed: of the run.
        late: whether the time for explaining is up.
    """
    if sample.reason is not None:
        return FeatureMap(method=_METHOD, reason=sample.reason)
    row_of = {identity: row for row, identity in enumerate(sample.defects)}
    known = [defect for defect in defects if defect.id in row_of]
    chosen = by_turns(known, MAP_MUTANTS, len(known))
    points = np.concatenate([sample.mutants[[row_of[defect.id] for defect in chosen]], sample.seeds])
    if len(points) < FEWEST_POINTS:
        return FeatureMap(method=_METHOD, reason=f"fewer than {FEWEST_POINTS} inputs could be compared")
    if late:
        return FeatureMap(method=_METHOD, reason="there was no time left for the map")
    places = _embedded(points, campaign_seed)
    labels = [*(int(defect.label or 0) for defect in chosen), *map(int, sample.labels)]
    names = [*(defect.id for defect in chosen), *([None] * len(sample.labels))]
    return FeatureMap(
        method=_METHOD,
        points=tuple(MapPoint(x=x, y=y, label=label, defect=name) for (x, y), label, name in zip(places, labels, names, strict=True)),
    )


def _embedded(points: np.ndarray, campaign_seed: int) -> list[tuple[float, float]]:
    """N places in the unit square."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # More threads would add up the forces in another order every time, and the last bit of one moves every point.
    with threadpool_limits(limits=1):
        principal = _principal(points)
        scale = principal[:, 0].std()
        tsne = TSNE(
            perplexity=min(PERPLEXITY, (len(points) - 1) / 3),
            init=(principal[:, :2] * (_BEGIN / scale if scale > 0 else 1.0)).astype(np.float32),
            max_iter=STEPS,
            random_state=integer(campaign_seed, "feature map"),
            n_jobs=1,
        )
        made = np.asarray(tsne.fit_transform(principal.astype(np.float32)), dtype=np.float64)
    made = np.nan_to_num(made)
    low, span = made.min(axis=0), np.ptp(made, axis=0)
    unit = np.round((made - low) / np.where(span > 0, span, 1.0), _PLACES)
    return [(float(x), float(y)) for x, y in unit]


def _principal(points: np.ndarray) -> np.ndarray:
    """float64 [N, at least 2]: the first principal components, with the sign that makes the largest value of each positive."""
    centred = points - points.mean(axis=0)
    sizes, directions = np.linalg.eigh(centred @ centred.T)  # rising
    kept = slice(-1, -1 - min(COMPONENTS, len(points)), -1)
    found = directions[:, kept] * np.sqrt(np.maximum(sizes[kept], 0.0))
    largest = np.abs(found).argmax(axis=0)
    result: np.ndarray = found * np.where(found[largest, np.arange(found.shape[1])] < 0, -1.0, 1.0)
    return result
