"""A limit of a rule: it states the breach, so ``> 0.20`` means that more than 0.20 is bad."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from gate.metrics.catalogue import SEVERITY, MetricSpec

__all__ = ["Threshold"]

Comparison = Literal[">", ">=", "<", "<="]

_FORM = re.compile(r"(?P<sign>>=|<=|>|<)?\s*(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(?P<percent>%)?")


@dataclass(frozen=True)
class Threshold:
    """A comparison with a finite limit in the metric's unit. Nothing but a number on the right side of the limit holds: NaN breaches."""

    comparison: Comparison
    limit: float
    text: str  # as the policy writes it

    @classmethod
    def parse(cls, written: Any, spec: MetricSpec) -> Threshold:
        """Reads ``"> 0.20"``, ``">= 3"``, ``"< 30%"``, or a bare number.

        A bare number compares in the metric's unit, in the direction in which the metric gets worse: 0.2 reads ``> 0.2`` for
        ``defect_rate`` and ``< 0.2`` for ``clean_accuracy``. Percent is for shares only.

        Raises:
            ValueError: another form, not finite, or a limit that the metric can't reach; the message says what to write.
        """
        if isinstance(written, bool) or not isinstance(written, str | int | float):
            raise ValueError(f'{written!r} is no limit; write one such as "> 0.20"')
        text = written.strip() if isinstance(written, str) else repr(written)
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(f'{text!r} is no limit; write a comparison (>, >=, <, <=) and a number, such as "> 0.20"')
        number = Decimal(found["number"])
        if found["percent"]:
            if not spec.is_share:
                raise ValueError(f"{text!r}: percent is for shares, and {spec.name} is measured in {spec.unit!r}")
            number /= 100
        limit = float(number)
        if not math.isfinite(limit):
            raise ValueError(f"{text!r} is no finite number")
        if limit < 0:
            raise ValueError(f"{text!r}: {spec.name} is never negative")
        bounded = spec.is_share or spec.unit == SEVERITY
        if bounded and limit > 1:
            percent = f'; did you mean "{found["sign"] or ""}{found["number"]}%"?' if spec.is_share and not found["percent"] else ""
            raise ValueError(f"{text!r}: {spec.name} lies between 0 and 1{percent}")
        sign = found["sign"]
        if sign is None:
            sign = ">" if spec.higher_is_worse else "<"
            text = f"{sign} {text}"
        if (sign == "<" and limit == 0) or (sign == ">" and limit == 1 and bounded):
            raise ValueError(f"{text!r}: {spec.name} can't lie there, so the limit would never be breached")
        return cls(sign, limit, text)  # type: ignore[arg-type]

    @property
    def upper(self) -> bool:
        """Whether too much is the breach, not too little."""
        return self.comparison in (">", ">=")

    def holds(self, value: float) -> bool:
        """Whether the value is on the good side; False for NaN."""
        match self.comparison:
            case ">":
                return value <= self.limit
            case ">=":
                return value < self.limit
            case "<":
                return value >= self.limit
            case "<=":
                return value > self.limit

    def breached(self, value: float) -> bool:
        """Whether the value is not on the good side; True for NaN."""
        return not self.holds(value)

    def decide(self, lower: float, upper: float) -> Literal["breached", "holds", "undecided"]:
        """Three-valued on a whole interval: breached when all of it lies beyond the limit, holds when none of it does."""
        best, worst = (lower, upper) if self.upper else (upper, lower)
        if self.breached(best):
            return "breached"
        return "holds" if self.holds(worst) else "undecided"

    def out_of_reach_behind(self, other: Threshold) -> bool:
        """Whether ``self`` can only be breached where ``other`` is: as a warning before ``other`` it would never show."""
        if self.upper != other.upper:
            return False
        if self.limit != other.limit:
            return self.limit > other.limit if self.upper else self.limit < other.limit
        return self.comparison == other.comparison or self.comparison in (">", "<")
