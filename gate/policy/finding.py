"""What the check of a policy has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """One remark about a policy that loads. A note is no fault: it says what the policy leaves to whoever uses it."""

    level: Literal["error", "warning", "note"]
    rule: str | None  # None: about the policy, or about a waiver of no rule
    text: str
    where: str  # file:line
    hint: str
