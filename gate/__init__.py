"""A release gate for neural networks.

``gate.run`` does what the command ``gate run`` does; ``gate.coverage`` holds the coverage criteria for use on their own. Importing this
package imports neither torch nor MLflow.

>>> import gate
>>> result = gate.run("gate.yaml")                                                   # a settings file
>>> result = gate.run({"model": "models:/digits/2", "data.seeds": "seeds.npz"})      # or settings, keys as in gate.yaml
>>> result.verdict, result.reasons
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gate.config import Settings
    from gate.result import Result

__all__ = ["__version__", "run"]

__version__ = "0.1.0"


def run(config: Settings | Mapping[str, Any] | str | Path) -> Result:
    """Runs the gate and returns its result; the reports are in the output folder.

    Args:
        config: a settings file, settings as a mapping with keys as in gate.yaml (``{"budget.executions": 500}``), or
            ``gate.config.Settings``.

    Raises:
        UsageError: settings, policy or output folder can't be used. Later errors become a result with verdict error or inconclusive.
    """
    from gate.config import Settings, load
    from gate.pipeline import run as run_pipeline

    if isinstance(config, Settings):
        settings = config
    elif isinstance(config, Mapping):
        settings = load(None, command_line=config).settings
    else:
        settings = load(Path(config)).settings
    return run_pipeline(settings).result
