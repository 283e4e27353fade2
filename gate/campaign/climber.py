"""Everything that the coverage gradient needs to know of the model and remembers of earlier tries. Lives in the worker.

What it proposes are inputs; only the supervisor, which has held them to the bound, says which of them may earn coverage. Until it does, the
activations and outputs of the passes in which they were made are kept, so that no mutant runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gate.campaign.ascent import climb
from gate.campaign.ascent_options import REMEMBERED, Ascent
from gate.campaign.forward import Forward
from gate.campaign.iterates import HeldPasses, Iterates
from gate.campaign.joint_ascent import climb_jointly
from gate.campaign.screening import best_together, expected
from gate.coverage.activations import ActivationBatch
from gate.coverage.items import NeuronCriterion
from gate.coverage.recorder import Recorder
from gate.coverage.suite import Suite
from gate.models.select import pick

__all__ = ["Climber", "steering"]

POOL_VALUES = 1 << 24  # activations of inputs that a climb can start from: 64 MiB
WITHIN = 0.5  # usual spreads: targets that are farther away are aimed at together with others only where none is nearer
SCREENED_VALUES = 1 << 23  # activations that are told from others at a time
NEAREST = 4  # a target is climbed to from one of this many inputs which lack least, at first
TIRED_AFTER = 8.0  # tries without success after which a neuron is a target only a quarter as often
NEAR = 0.3  # usual spreads: a neuron that lacks twice that is a target only a ninth as often as one that lacks almost nothing


class Climber:
    """Knows the activations of inputs to start from, chooses targets and climbs.

    Args:
        recorder: of the watched layers.
        forward: how the model runs.
        preprocess: what stands between file values and the model.
    """

    def __init__(self, recorder: Recorder, forward: Forward, preprocess: nn.Module) -> None:
        self._recorder = recorder
        self._forward = forward
        self._preprocess = preprocess
        self._layers = {layer.name: layer.neurons for layer in recorder.layers}
        self._neurons = sum(self._layers.values())
        self._pool = torch.zeros(0, self._neurons)
        self._places = torch.zeros(0, dtype=torch.int64)  # the supervisor's number of each input in the pool
        self._seeds = 0  # of the pool, the first so many
        self._scale = torch.zeros(0)
        self._runs = 0
        self._recent: dict[int, Tensor] = {}
        self.held = HeldPasses(self._layers)
        self._tries: Tensor | None = None  # float64 [criteria * neurons], on the CPU
        self._open: Tensor | None = None  # int64 [criteria * neurons]: open items when last looked at

    @property
    def room(self) -> int:
        """Inputs that the pool holds at most."""
        return max(1, POOL_VALUES // self._neurons)

    def note_seeds(self, acts: dict[str, Tensor]) -> None:
        """Takes the next seed inputs into the pool, as many as there is room for; their places are their positions."""
        flat = ActivationBatch.of(acts, None, self._layers).flat
        flat = flat[: max(0, self.room - len(self._pool))]
        first = len(self._pool)
        self._pool = torch.cat([self._pool.to(flat.device), flat])
        self._places = torch.cat([self._places, torch.arange(first, first + len(flat))])
        self._seeds += len(flat)

    def fresh(self, forward: Forward) -> Climber:
        """One that runs the model another way and knows the seed inputs only, as this one did in the beginning."""
        other = Climber(self._recorder, forward, self._preprocess)
        other._pool, other._places, other._seeds = self._pool[: self._seeds].clone(), self._places[: self._seeds].clone(), self._seeds
        return other

    def note_run(self, acts: dict[str, Tensor]) -> None:
        """Keeps the activations of a batch of the search for a while; the batches are numbered from 0."""
        self._recent[self._runs] = ActivationBatch.of(acts, None, self._layers).flat
        self._runs += 1
        while len(self._recent) > REMEMBERED:
            del self._recent[next(iter(self._recent))]

    def note_missed(self) -> None:
        """Numbers a batch of the search of which nothing is known, since it made the model raise; its parts count as none."""
        self._runs += 1

    def join(self, fresh: Tensor) -> None:
        """Takes inputs of the last ``REMEMBERED`` batches into the pool, as many as there is room for.

        Args:
            fresh: int64 [F, 3]: the number of each one's batch, its row there and its place; a place that was taken is taken over.
        """
        known = {place: row for row, place in enumerate(self._places.tolist())}
        joining = {place: (run, row) for run, row, place in fresh.tolist() if run in self._recent}  # of a place taken twice the later
        old = [(known[place], *source) for place, source in joining.items() if place in known]
        room = max(0, self.room - len(known))
        new = [(place, *source) for place, source in joining.items() if place not in known][:room]
        if old:
            self._pool[[row for row, _, _ in old]] = torch.stack([self._recent[run][row] for _, run, row in old])
        if new:
            values = torch.stack([self._recent[run][row] for _, run, row in new])
            self._pool = torch.cat([self._pool.to(values.device), values])
            self._places = torch.cat([self._places, torch.tensor([place for place, _, _ in new])])

    def aim(self, suite: Suite, count: int, seed: int, *, together: bool = False) -> tuple[Tensor, Tensor]:
        """Chooses where to climb from and to.

        Args:
            suite: of the search arm.
            count: starts wanted.
            seed: of the draws.
            together: whether the inputs are to be near several targets at once; the targets are then those of ``climb_jointly``.

        Returns:
            places: int64 [n], of the inputs to start from; n is ``count`` (with ``together`` at most), or 0 where no neuron has anything to
                gain.
            targets: int64 [n], see ``climb``.
        """
        criteria = steering(suite)
        gaps = torch.stack([criterion.gaps(self._batch(self._pool)) for criterion in criteria])
        scale = self._usual_spread()
        lacking = torch.where(gaps == 0, torch.inf, gaps.abs() / scale)
        open_ = torch.isfinite(lacking).any(1).flatten().cpu()
        if not len(self._pool) or not bool(open_.any()):
            none = torch.zeros(0, dtype=torch.int64)
            return none, none
        away = lacking.amin(1).flatten().to(torch.float64).cpu()  # how far the nearest input is
        weights = torch.where(open_, ((1.0 + self._tired(criteria) / TIRED_AFTER) * (NEAR + away)) ** -2, 0.0)
        # Drawn on the CPU, so that the same seed aims alike on any device.
        random = torch.Generator().manual_seed(seed)
        if together:
            starts = self._near_several(lacking, self._tired(criteria), count, random)
            return self._places[starts], torch.zeros_like(starts)
        targets = torch.multinomial(weights, count, replacement=True, generator=random)
        column = lacking.permute(1, 0, 2).flatten(1)[:, targets.to(lacking.device)]
        # What was tried in vain is tried from farther away.
        width = (NEAREST * (1.0 + self._tired(criteria)[targets] / TIRED_AFTER)).clamp(max=len(column)).floor()
        near = column.topk(int(width.max()), dim=0, largest=False)
        drawn = (torch.rand(count, generator=random, dtype=torch.float64) * width).to(torch.int64).to(near.indices.device)
        across = torch.arange(count, device=drawn.device)
        # Where fewer inputs than that have anything to gain, the nearest of all.
        chosen = torch.where(torch.isfinite(near.values[drawn, across]), near.indices[drawn, across], near.indices[0])
        assert self._tries is not None
        self._tries += torch.bincount(targets, minlength=len(self._tries))
        return self._places[chosen.cpu()], targets

    def screen(self, suite: Suite, ends: Tensor, most: Tensor, shares: Sequence[float], count: int) -> tuple[Tensor, Tensor]:
        """Chooses inputs between others (see ``gate.campaign.screening``) that are expected to cover most together. Runs nothing.

        Args:
            suite: of the search arm.
            ends: int64 [S, 2], the places of the inputs at both ends; of more stretches than there is room for the first are taken, and
                those with an end that is not in the pool are passed over.
            most: float64 [S], the largest share that may be taken of each.
            shares: how far along a stretch inputs may be chosen.
            count: wanted at most; fewer, or none, where no more is expected to cover anything.

        Returns:
            stretches: int64 [n], rows of ``ends``, the best first.
            shares: int64 [n], positions in ``shares``.
        """
        device, none = self._pool.device, torch.zeros(0, dtype=torch.int64)
        if not len(ends) or not len(self._pool):
            return none, none
        row_of = torch.full((int(max(self._places.max(), ends.max())) + 1,), -1, dtype=torch.int64)
        row_of[self._places] = torch.arange(len(self._places))
        rows = row_of[ends]
        known = (rows >= 0).all(1).nonzero().flatten()[: max(1, SCREENED_VALUES // (self._neurons * len(shares)))]
        part = torch.tensor(shares, dtype=torch.float32)
        way, share = (part <= most[known, None]).nonzero(as_tuple=True)
        if not len(way):
            return none, none
        low, high = (self._batch(self._pool[rows[known[way], end].to(device)]) for end in (0, 1))
        owner, item = expected(steering(suite), low, high, part[share].to(device))
        chosen = best_together(owner, item, len(way), count)[0].cpu()
        return known[way[chosen]], share[chosen]

    def climb(
        self,
        suite: Suite,
        x: Tensor,
        targets: Tensor,
        *,
        token: int,
        ascent: Ascent,
        epsilon: float,
        bounds: tuple[float, float],
        whole: bool,
        seed: int,
    ) -> tuple[Tensor, Tensor, int]:
        """Climbs and keeps what the passes showed under ``token``; see ``gate.campaign.ascent.climb`` for the arguments.

        Returns:
            mutants: float32 [m, H, W, C].
            rows: int64 [m]: the start of each.
            work: forward-equivalents.
        """
        luck = torch.rand(len(x), self._neurons, generator=torch.Generator().manual_seed(seed)).to(x.device)
        targets, scale, criteria = targets.to(x.device), self._usual_spread().to(x.device), steering(suite)
        common: dict[str, Any] = {"epsilon": epsilon, "bounds": bounds, "whole": whole}

        def joint(rows: slice) -> tuple[int, Iterates]:
            random = torch.Generator().manual_seed(seed + rows.start)
            start = x[rows].to(torch.float32)
            found, aimed = climb_jointly(self._watched, self._seen, criteria, start, scale, together=ascent.together, luck=random, **common)
            assert self._tries is not None
            self._tries += torch.bincount(aimed.cpu(), minlength=len(self._tries))
            return rows.start, found

        def part(rows: slice) -> tuple[int, Iterates]:
            found = climb(
                self._watched,
                self._seen,
                criteria,
                x[rows].to(torch.float32),
                targets[rows],
                scale,
                ascent=ascent,
                luck=luck[rows],
                **common,
            )
            return rows.start, found

        parts = self._forward.with_gradients(len(x), joint if ascent.together else part)
        joined = self.held.hold(token, parts)
        self._forward.model_calls += joined.work
        return joined.mutants, joined.rows, joined.work

    def _batch(self, flat: Tensor) -> ActivationBatch:
        return ActivationBatch(self._layers, flat)

    def _near_several(self, lacking: Tensor, tired: Tensor, count: int, random: torch.Generator) -> Tensor:
        """int64 [n]: rows of the pool, at most ``count``, that are near most targets together.

        Args:
            lacking: float32 [criteria, pool, neurons], in usual spreads; infinite where there is nothing to gain.
            tired: float64 [criteria * neurons].
        """
        least, which = lacking.min(0)
        chance = (1.0 + tired.view(len(lacking), -1) / TIRED_AFTER) ** -1
        luck = torch.rand(least.shape, generator=random).to(least.device)
        liked = luck * chance.to(luck).gather(0, which) * WITHIN
        for farther in (1.0, 4.0, 16.0):
            row, neuron = (least < farther * liked).nonzero(as_tuple=True)
            if len(row):
                return best_together(row, which[row, neuron] * least.shape[1] + neuron, len(least), count)[0].cpu()
        return torch.zeros(0, dtype=torch.int64)

    def _usual_spread(self) -> Tensor:
        """float32 [neurons]: standard deviation over the pool as it was when first asked for; of a neuron without any, the mean of the
        others'."""
        if not len(self._scale):
            spread = self._pool.nan_to_num(0.0, 0.0, 0.0).std(0, correction=0)
            usual = spread[spread > 0].mean() if bool((spread > 0).any()) else torch.ones((), device=spread.device)
            self._scale = torch.where(spread > 0, spread, usual)
        return self._scale

    def _tired(self, criteria: list[NeuronCriterion]) -> Tensor:
        """float64 [criteria * neurons]: tries at each since one of its items was last covered."""
        open_ = torch.cat([criterion.open_items().cpu() for criterion in criteria])
        if self._tries is None or self._open is None:
            self._tries = torch.zeros(len(open_), dtype=torch.float64)
        else:
            self._tries[open_ < self._open] = 0.0
        self._open = open_
        return self._tries

    def _watched(self, x: Tensor) -> tuple[ActivationBatch, Tensor]:
        with self._recorder.recording(grad=True):
            output = self._forward.run(x, self._preprocess)
        acts = self._recorder.activations()
        self._recorder.forget()
        return self._batch(torch.cat([acts[name] for name in self._layers], dim=1)), self._raw(output, len(x))

    def _seen(self, x: Tensor) -> tuple[ActivationBatch, Tensor]:
        with torch.no_grad():
            return self._watched(x)

    def _raw(self, output: object, count: int) -> Tensor:
        return pick(output, self._forward.key).detach().to(torch.float32).reshape(count, -1)


def steering(suite: Suite) -> list[NeuronCriterion]:
    """The guiding criteria that can say which way a neuron has to move."""
    return [one for name in suite.guide if isinstance(one := suite.criteria[name], NeuronCriterion)]
