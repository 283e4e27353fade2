"""The checks of ``make gpu-check``, one by one, where there is a CUDA device."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu_check import CHECKS, Place, prepare

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    folder: Path = tmp_path_factory.mktemp("gpu")
    return prepare(folder, "cuda")


@pytest.mark.parametrize("name", CHECKS)
def test_on_cuda(name: str, place: Place) -> None:
    assert CHECKS[name](place)
