"""One worker process for all tests that leave it alive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.campaign.supervisor import Worker


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker without a model; whoever uses it loads one."""
    private: Path = tmp_path_factory.mktemp("worker")
    with Worker(private) as running:
        yield running
