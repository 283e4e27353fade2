"""A release gate for neural networks.

``gate.run`` does what the command ``gate run`` does; ``gate.coverage`` holds the coverage criteria for use on their own. Importing this
package imports neither torch nor MLflow.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
