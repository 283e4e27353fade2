"""What every page has in common: nothing it prints is markup unless this package made it; style and script run by their hash alone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gate.report.curve import drawn
from gate.report.numbers import count
from gate.report.text import NAME, visible

__all__ = ["inline", "made_visible", "page_environment", "source_hash"]


def made_visible(value: object) -> object:
    """Data URIs, style and script come as Markup from this package; all other text is from outside and is made visible."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def page_environment(finalize: Callable[[object], object] = made_visible) -> Environment:
    """A page's templates, escaped, with the filters that all pages use."""
    environment = Environment(
        loader=PackageLoader("gate.report"), autoescape=True, undefined=StrictUndefined, finalize=finalize, trim_blocks=True
    )
    environment.filters["name"] = lambda text: visible(text, NAME)
    environment.filters["thousands"] = count
    environment.filters["drawn"] = drawn
    return environment


@cache
def inline(name: str) -> Markup:
    """A style or a script of the templates' folder, to stand in the page."""
    return Markup(files("gate.report").joinpath("templates", name).read_text(encoding="utf-8"))


def source_hash(text: str) -> str:
    """What a content security policy calls an inline style or script by, in its quotes."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
