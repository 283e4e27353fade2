"""Renderings of a finished run: the record, the page people read, and what CI systems take.

All are made from one ``gate.result.Result`` and the pictures in its run folder, so they can't disagree.
"""

from __future__ import annotations

from gate.report.write import FILES, write

__all__ = ["FILES", "write"]
