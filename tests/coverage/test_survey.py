"""Every layer's range over some samples, whatever the batches."""

from __future__ import annotations

import pytest
import torch
import watched_networks as nets
from torch import nn

from gate.config import CoverageSettings
from gate.coverage.survey import Survey

IMAGE = torch.rand(7, 1, 8, 8, generator=torch.Generator().manual_seed(2))


def _survey(module: nn.Module, *batches: torch.Tensor, outputs: int = 10, **settings: object) -> Survey:
    survey = Survey(module, batches[0], outputs, CoverageSettings(**settings))
    for batch in batches:
        with torch.no_grad(), survey.recorder.recording():
            module(batch)
        survey.take()
    return survey


def test_ranges_are_those_of_the_neurons_over_all_batches() -> None:
    module = nets.made(nets.SmallCNN)
    found = _survey(module, IMAGE[:4], IMAGE[4:]).ranges()["features.0"]["range"]
    with torch.no_grad():
        values = module.features[0](IMAGE).mean((2, 3))
    low, high = values.amin(0), values.amax(0)
    expected = [low.min(), low.median(), low.max(), high.min(), high.median(), high.max()]
    torch.testing.assert_close(torch.tensor(list(found.values())), torch.stack(expected))


def test_constant_and_broken_neurons_are_counted_and_leave_no_trace_in_the_range() -> None:
    module = nets.made(nets.SmallCNN)
    with torch.no_grad():
        module.hidden.weight[:2] = 0
        module.hidden.weight[2] = torch.nan
    found = _survey(module, IMAGE).ranges()["hidden"]
    assert (found["constant"], found["nonfinite"]) == (3, 1)  # what is never finite never varies
    assert torch.isfinite(torch.tensor(list(found["range"].values()))).all()
    with torch.no_grad():
        module.hidden.weight.fill_(torch.inf)
    assert _survey(module, IMAGE).ranges()["hidden"]["range"] is None


def test_a_layer_that_runs_for_some_inputs_only_counts_where_it_ran() -> None:
    class Choosing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.often, self.seldom, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.seldom(x) if x.sum() < 0 else self.often(x))

    x = torch.rand(3, 4)
    both = _survey(Choosing().eval(), x, -x, outputs=3).ranges()
    assert set(both) == {"often", "head"}  # what did not run at first is not known at all


@pytest.mark.parametrize(("wanted", "watched"), [("auto", ["features.0", "features.3", "hidden"]), (("h*",), ["hidden", "head"])])
def test_the_description_says_what_is_watched(wanted: str, watched: list[str]) -> None:
    said = _survey(nets.made(nets.SmallCNN), IMAGE, layers=wanted).described()
    assert said["problem"] is None
    assert [row["name"] for row in said["layers"] if row["watched"]] == watched
    assert [row["name"] for row in said["layers"] if row["head"]] == ["head"]


def test_a_name_that_is_not_there_leaves_the_list_and_tells_the_nearest() -> None:
    said = _survey(nets.made(nets.SmallCNN), IMAGE, layers=("hiden",)).described()
    assert len(said["layers"]) == 11
    assert not any(row["watched"] for row in said["layers"])
    assert "Did you mean 'hidden'?" in said["problem"]["hint"]
