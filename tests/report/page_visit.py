"""What a test sees of a page in the browser."""

from __future__ import annotations

from dataclasses import dataclass, field

from playwright.sync_api import Page


@dataclass
class Visit:
    """An open page, and every complaint and request since it was opened."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
