"""What stands in the ``README.md`` of a training set: what it holds, what the augmentation covers, and how to prove the fix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gate.corpus.augmentation_files import Planned
from gate.domains.image.augmentation import change_in_words

__all__ = ["readme"]


def readme(x: np.ndarray, half: str, planned: Sequence[Planned], value_range: tuple[float, float], augmented: bool) -> str:
    """Markdown.

    Args:
        x: [N, H, W, C] the exported mutants.
        half: of the seed inputs that they come from.
        planned: what stands for each operator.
        value_range: lowest and highest value of a file.
        augmented: whether there is a pipeline.
    """
    shape = " x ".join(map(str, x.shape[1:]))
    lines = [
        "# A training set of defects",
        "",
        f"{len(x)} mutants that the network got wrong, under their true labels: {shape}, {x.dtype}, values from {value_range[0]:g} to",
        f"{value_range[1]:g}. All come from half {half} of the seed inputs; the other half is held back to judge the fix on.",
        "",
        "| file | holds |",
        "|---|---|",
        "| `train.npz` | `x` in the files' own dtype, `y` class numbers |",
        "| `pictures/` | the same as pictures, a folder per class |",
        "| `defects.csv` | where each comes from |",
    ]
    if augmented:
        lines += [
            "| `augment.py` | `augmentation()`: an albumentations pipeline; `augmented(picture, pipeline)` changes one picture |",
            "| `augment.json` | the same for `albumentations.load` |",
        ]
    lines += [
        "",
        "Train on your own training data with this augmentation, and mix these pictures in. They alone would be memorised: the network",
        "then knows these files and still fails on new ones.",
        "",
        "## What the augmentation covers",
        "",
        "| operator | defects | pictures | remark |",
        "|---|---|---|---|",
    ]
    for operator, limit, made in planned:
        said = "" if limit is None else change_in_words(operator.name, limit)
        remark = made.remark if made.transforms else f"left out: {made.remark}"
        lines.append(f"| {operator.name} | {operator.defects} | {said} | {remark} |")
    if not planned:
        lines.append("| none | | | no natural operator stands in the recipes of the defects |")
    lines += [
        "",
        "Attacks, coverage gradients and splices are no part of it. Against attacks, train on attacks (adversarial training).",
        "",
        "## Proof of the fix",
        "",
        "`gate regress RUN --model URI` replays the run's defects on the new model, and makes fresh mutants of the same root causes from",
        "seed inputs of the half that was held back. It says of each root cause whether it is fixed or memorised.",
        "",
    ]
    return "\n".join(lines)
