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
_METHOD = "t-SNE"
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

    centred = points - points.mean(axis=0)
    # More threads would add up the forces in another order every time, and the last bit of one moves every point.
    with threadpool_limits(limits=1):
        left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
        two = np.zeros((len(points), 2))
        two[:, : min(2, len(sizes))] = (left * sizes)[:, :2]
        scale = two[:, 0].std()
        start = (two / scale * 1e-4 if scale > 0 else two).astype(np.float32)
        tsne = TSNE(
            perplexity=min(PERPLEXITY, (len(points) - 1) / 3),
            init=start,
            max_iter=STEPS,
            random_state=integer(campaign_seed, "feature map"),
            n_jobs=1,
        )
        made = np.asarray(tsne.fit_transform(centred.astype(np.float32)), dtype=np.float64)
    made = np.nan_to_num(made)
    low, span = made.min(axis=0), np.ptp(made, axis=0)
    unit = np.round((made - low) / np.where(span > 0, span, 1.0), _PLACES)
    return [(float(x), float(y)) for x, y in unit]
