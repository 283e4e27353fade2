"""What happens where a model can't be looked into. Runs in the worker."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gate.campaign.forward import ModelRaised
from gate.errors import GateError, ModelError

__all__ = ["looking_inside"]


@contextmanager
def looking_inside() -> Iterator[None]:
    """Inside, whatever torch makes of hooks and gradients in an unusual model is a property of that model: it answers all the same.

    Raises:
        ModelError: what it was.
    """
    try:
        yield
    except (GateError, ModelRaised, torch.OutOfMemoryError):
        raise
    except Exception as error:
        traceback.print_exc()
        raise ModelError(f"the model can't be looked into: {type(error).__name__}: {error}", where="the model") from error
