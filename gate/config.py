"""Layered settings: defaults, then ``GATE_…`` environment variables, then ``gate.yaml``, then the command line; later wins.

Unknown keys are errors that name the nearest known key. Every value remembers where it came from, for ``--show-config``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gate.errors import ConfigError
from gate.strict_yaml import Document, nearest, read

__all__ = [
    "BudgetSettings",
    "CoverageSettings",
    "Criterion",
    "DataSettings",
    "InputSettings",
    "LoadedSettings",
    "OutputSettings",
    "SearchSettings",
    "Settings",
    "TriageSettings",
    "duration",
    "joined_by_plus",
    "kind_of",
    "load",
]

ENVIRONMENT_PREFIX = "GATE_"
CRITERIA = ("nc", "kmnc", "nbc", "snac", "tknc", "tknp", "map", "output", "nlc", "lsa", "dsa", "mdsa")
Kind = Literal["share", "count", "statistic"]
UNBOUNDED: dict[str, Kind] = {"tknp": "count", "map": "count", "nlc": "statistic"}  # whose value is no share of a fixed number of items

Criterion = Literal["nc", "kmnc", "nbc", "snac", "tknc", "tknp", "map", "output", "nlc", "lsa", "dsa", "mdsa"]
FLOAT32_MAX = (2 - 2**-23) * 2.0**127  # activations are float32, so no larger number can be compared with one
Output = Annotated[float, Field(ge=-FLOAT32_MAX, le=FLOAT32_MAX)]
Bounds = tuple[Output, Output]

MUTANTS_PER_GRADIENT = 3  # at most, of the coverage gradient; see gate.campaign.ascent_options

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>s|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str | int | float) -> float:
    """Seconds in ``90s``, ``10m``, ``1.5h`` or ``1h30m``.

    Raises:
        ValueError: another form, zero or negative.
    """
    written = str(text).strip()
    parts = list(_DURATION.finditer(written))
    if isinstance(text, bool) or not parts or "".join(part.group() for part in parts) != written:
        raise ValueError(f"{written!r} is no duration; write a number and a unit, such as 90s, 10m or 2h")
    seconds = sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)
    if not 0 < seconds < 1e9:
        raise ValueError(f"{written!r} is no usable duration; it must be more than zero")
    return seconds


def kind_of(criterion: str) -> Kind:
    """What the value of a coverage criterion is."""
    return UNBOUNDED.get(criterion, "share")


def joined_by_plus(text: str) -> tuple[str, ...]:
    """The names in a text such as ``kmnc+nbc``."""
    return tuple(part.strip() for part in text.split("+"))


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class InputSettings(_Section):
    """How a file becomes what the model sees; see docs/configuration.md for the order of the steps.

    None means: not said, so taken from the MLflow signature or the data where they say enough, else a documented default.
    """

    kind: Literal["image"] = "image"
    size: tuple[int, int] | None = None  # height, width in pixels
    channels: int | None = Field(default=None, ge=1, le=64)
    range: tuple[float, float] | None = None  # of the values in the files; uint8: [0, 255]; float: [0, 1]
    scale: tuple[float, float] = (0.0, 1.0)  # the file range is mapped linearly onto this
    mean: tuple[float, ...] = (0.0,)  # per channel, or one for all
    std: tuple[float, ...] = (1.0,)
    order: Literal["rgb", "bgr"] = "rgb"
    layout: Literal["nchw", "nhwc", "nhw", "flat"] = "nchw"
    resize: Literal["bilinear", "bicubic", "nearest", "lanczos", "none"] = "bilinear"
    crop: Literal["center", "none"] = "center"  # center: shorter side to size, middle cut out; none: squeezed to size

    @field_validator("size")
    @classmethod
    def _sides(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not all(1 <= side <= 8192 for side in value):
            raise ValueError("each side must be between 1 and 8192 pixels")
        return value

    @field_validator("range")
    @classmethod
    def _rising(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError("the first number must be less than the second")
        return value

    @field_validator("scale")
    @classmethod
    def _apart(cls, value: tuple[float, float]) -> tuple[float, float]:
        if value[0] == value[1]:
            raise ValueError("the two numbers must differ; [1, 0] exchanges dark and bright")
        return value

    @field_validator("std")
    @classmethod
    def _positive(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not value or not all(number > 0 for number in value):
            raise ValueError("standard deviations must be more than zero")
        return value

    @model_validator(mode="after")
    def _per_channel(self) -> InputSettings:
        for name in ("mean", "std"):
            count = len(getattr(self, name))
            if count != 1 and self.channels is not None and count != self.channels:
                raise ValueError(f"{name} has {count} numbers for {self.channels} channels; give one, or one for each channel")
        return self


class OutputSettings(_Section):
    """What the model answers."""

    kind: Literal["auto", "logits", "probabilities", "log_probabilities", "sigmoid"] = "auto"
    key: str | int | None = None  # which of several outputs: a dict's key or a tuple's position


class DataSettings(_Section):
    """Where samples come from: a folder per class, an ``.npz``, or an MLflow artifact URI of either."""

    seeds: str | None = None
    long_tail: str | None = None
    profile: str | None = None  # the seeds where absent
    on_bad_file: Literal["error", "skip"] = "error"
    judge_half: Literal["all", "a", "b"] = "all"  # the half of the seed inputs that rates come from: the one not exported for training


class CoverageSettings(_Section):
    """Which neurons are watched, and by which criteria."""

    layers: Literal["auto"] | tuple[str, ...] = "auto"  # layer names; * matches any text
    criteria: tuple[Criterion, ...] = ("kmnc", "nbc")  # also written kmnc+nbc
    guide: tuple[Criterion, ...] | None = None  # those that the search follows; default: all of criteria
    neuron: Literal["mean", "max", "element"] = "mean"  # what a neuron of a convolution or token layer is; see docs/coverage.md
    nc_threshold: Output = 0.75
    nc_scale: Literal["layer", "none"] = "layer"
    kmnc_sections: int = Field(default=100, ge=2, le=10_000)
    kmnc_edges: Literal["left", "right"] = "left"
    nbc_margin: float = Field(default=0.0, ge=0, le=FLOAT32_MAX)  # standard deviations by which the range is widened
    nbc_bounds: Bounds | None = None  # fixed limits instead of the range
    snac_margin: float = Field(default=0.0, ge=0, le=FLOAT32_MAX)
    snac_bounds: Bounds | None = None
    tknc_k: int = Field(default=2, ge=1, le=1_000)
    tknp_k: int = Field(default=2, ge=1, le=1_000)
    tknp_joint: bool = False  # one pattern over all layers, instead of one a layer
    map_threshold: Output = 0.0  # an output above it counts as active
    map_window: int | None = Field(default=None, ge=1)  # layers in a row that make one pattern; default: all
    output_sections: int = Field(default=10, ge=1, le=1_000)  # of the confidence, for each class
    surprise_sections: int = Field(default=100, ge=1, le=100_000)  # of lsa, dsa and mdsa
    surprise_references: int = Field(default=1_000, ge=2)  # profile samples kept for each class
    stall: int = Field(default=5_000, ge=1)  # search executions without anything new after which the search counts as stalled
    stall_chance: float | None = Field(default=None, gt=0, lt=1)  # ... or an estimated chance of something new below this
    on_stall: Literal["freeze", "end", "continue"] = "freeze"  # freeze: the search goes for defects instead; end: the campaign ends

    @property
    def guides(self) -> tuple[Criterion, ...]:
        """The criteria that the search follows."""
        return self.guide or self.criteria

    @property
    def reported(self) -> str:
        """The criterion that coverage_gain reports where the policy names none: the first whose value is a share, else the first."""
        return next((name for name in self.criteria if name not in UNBOUNDED), self.criteria[0])

    @field_validator("criteria", "guide", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        if isinstance(value, str):
            return joined_by_plus(value)
        return tuple(value) if isinstance(value, list) else value  # of JSON: behind this function strict validation takes no list

    @field_validator("layers", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        if value == "auto":
            return value
        if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
            return tuple(value)  # see _joined
        raise ValueError('must be auto or a list of names, such as ["features.*"]; names of digits alone need quotes')

    @field_validator("criteria", "layers", "guide")
    @classmethod
    def _some(cls, value: Any) -> Any:
        if isinstance(value, tuple):
            if not value:
                raise ValueError("at least one is needed")
            if len(set(value)) != len(value):
                raise ValueError("one stands twice")
        return value

    @model_validator(mode="after")
    def _guide_is_measured(self) -> CoverageSettings:
        extra = [name for name in self.guide or () if name not in self.criteria]
        if extra:
            raise ValueError(f"guide names {extra[0]!r}, which is not among criteria")
        return self

    @model_validator(mode="after")
    def _threshold_fits(self) -> CoverageSettings:
        if self.nc_scale == "layer" and not 0 <= self.nc_threshold <= 1:
            raise ValueError("nc_threshold must lie between 0 and 1, unless nc_scale is none")
        for name in ("nbc", "snac"):
            bounds, margin = getattr(self, f"{name}_bounds"), getattr(self, f"{name}_margin")
            if bounds is not None and (margin or bounds[0] > bounds[1]):
                raise ValueError(f"{name}_bounds must be two rising numbers, and have no {name}_margin beside them")
        return self


class SearchSettings(_Section):
    """How the search arm chooses what to mutate and how, and how it runs the model."""

    strategy: Literal["mixture", "coverage", "diversity", "uncertainty", "recency", "uniform"] = "mixture"  # which entry next
    operators: Literal["adaptive", "even"] = "adaptive"  # which operator next: by what it found for its cost, or all alike
    # Gradients that a climb or a descent takes one after the other; None: what has been found to pay.
    ascent_steps: int | None = Field(default=None, ge=1, le=20)
    step_size: float | None = Field(default=None, gt=0, le=1)  # share of the policy's bound; None: as long as a linear model needs
    direction: Literal["sign", "normalised"] = "sign"  # every value moves alike, or in proportion to its gradient
    amp: Literal["off", "bf16", "fp16"] = "off"  # mixed precision for search and control arms; findings are confirmed in full precision
    compile: bool = False  # torch.compile


class TriageSettings(_Section):
    """How much of the budget explaining the defects may take; see docs/triage.md."""

    share: float = Field(default=0.25, ge=0, le=0.9)  # of the budget, at most; what there is no budget for is listed as not explained
    minimize: float | None = None  # seconds, written 30s: at most as many model calls as take so long; None: half of the share
    per_root_cause: int = Field(default=3, ge=0, le=100)  # defects of each root cause that are attributed

    @field_validator("minimize", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> Any:
        return value if value is None else duration(value)


class BudgetSettings(_Section):
    """The campaign ends at whichever comes first; None sets no limit. Wall time counts from the start of the command."""

    wall: float | None = None  # seconds; written 90s, 10m, 2h
    executions: int | None = Field(default=None, gt=0, le=10**12)
    device: float | None = None  # seconds for which the device is held

    @field_validator("wall", "device", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> Any:
        return value if value is None else duration(value)


class Settings(_Section):
    """All settings of a run."""

    model: str | None = None
    baseline: str | None = None
    previous: str = "auto"  # auto | none | a run folder | runs:/<id>
    tracking_uri: str | None = None  # MLflow's own default where absent
    experiment: str = "gate"  # the MLflow experiment that gate runs are recorded in
    publish: bool | None = None  # None: when the candidate comes from a registry
    input: InputSettings = InputSettings()
    output: OutputSettings = OutputSettings()
    classes: tuple[str, ...] | str | None = None  # names, or a file with one name a line
    data: DataSettings = DataSettings()
    coverage: CoverageSettings = CoverageSettings()
    search: SearchSettings = SearchSettings()
    triage: TriageSettings = TriageSettings()
    budget: BudgetSettings = BudgetSettings()
    policy: str = "baseline"
    device: str = "auto"  # auto | cpu | cuda | cuda:N
    batch_size: int = Field(default=128, ge=1, le=65_536)
    workers: int = Field(default=1, ge=1, le=64)  # processes that run the model; the result is the same for any number
    threads: int | None = Field(default=None, ge=1, le=1024)  # of each on the CPU; None: one for each core, however many workers
    corpus: str | None = None  # a run folder, or a corpus file, whose entries the search starts from beside the seed inputs
    corpus_memory: int = Field(default=512, ge=1)  # MiB of mutants held in memory; more are read from disk when they are needed
    validator: str | None = None  # a model that a valid mutant must not change the class of: any model URI; see docs/configuration.md
    seed: int = Field(default=0, ge=0, lt=2**63)
    out: str = "gate-out"
    advisory: bool = False

    @model_validator(mode="after")
    def _room_for_a_climb(self) -> Settings:
        steps = self.search.ascent_steps
        if steps is not None and steps * MUTANTS_PER_GRADIENT > self.batch_size:
            raise ValueError(
                f"search.ascent_steps: a climb of {steps} steps makes up to {steps * MUTANTS_PER_GRADIENT} mutants, more than the "
                f"{self.batch_size} of one batch (batch_size)"
            )
        return self

    @field_validator("device")
    @classmethod
    def _device(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
            raise ValueError(f"{value!r} is no device; write auto, cpu, cuda or cuda:0")
        return value


@dataclass(frozen=True)
class LoadedSettings:
    """Settings and, for every leaf, the layer that set it."""

    settings: Settings
    origin: dict[str, str]  # "budget.wall" -> "default" | "GATE_BUDGET_WALL" | "gate.yaml:7" | "command line"

    def rows(self) -> list[tuple[str, Any, str]]:
        """(key, value, origin) of every setting, in the order they are declared."""
        return [(key, value, self.origin.get(key, "default")) for key, value in _leaves(self.settings.model_dump(mode="json"))]


def load(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    command_line: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Merges the layers.

    Args:
        path: the settings file; where None, ``gate.yaml`` of the working folder if there is one.
        environment: variables to read ``GATE_…`` from; the process's own where None.
        command_line: dotted keys and values; None values count as not given.

    Raises:
        ConfigError: an unknown key or a value that does not fit, with the file and line or variable.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, text in sorted(environment.items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            key = _environment_key(name)
            if key is not None:
                _put(values, key, _environment_value(key, text))
                origin[key] = name
    if path is None and Path("gate.yaml").is_file():
        path = Path("gate.yaml")
    document: Document | None = None
    if path is not None:
        document = read(path)
        if not isinstance(document.data, dict):
            raise ConfigError(
                "The settings must be a mapping of keys to values.",
                where=document.where(),
                hint="Write one `key: value` a line; see docs/configuration.md.",
            )
        _refuse_unknown(document)
        for key, value in _leaves(document.data):
            _put(values, key, _relative_to_file(key, value, path))
            origin[key] = document.where(key.split("."))
    for key, value in (command_line or {}).items():
        if value is not None:
            _put(values, key, value)
            origin[key] = "command line"
    try:
        settings = Settings.model_validate(_tuples(values))
    except ValidationError as error:
        raise _explained(error, origin) from error
    return LoadedSettings(settings, origin)


_SECTIONS: dict[str, type[_Section]] = {
    "input": InputSettings,
    "output": OutputSettings,
    "data": DataSettings,
    "coverage": CoverageSettings,
    "search": SearchSettings,
    "triage": TriageSettings,
    "budget": BudgetSettings,
}
_NAMES_TOO = ("previous", "policy", "model", "baseline", "corpus", "validator")  # a name or a URI where there is no such file
_PATHS = ("data.seeds", "data.long_tail", "data.profile", "classes", "out", *_NAMES_TOO)


def _known_keys() -> list[str]:
    keys = [name for name in Settings.model_fields if name not in _SECTIONS]
    return keys + [f"{section}.{name}" for section, model in _SECTIONS.items() for name in model.model_fields]


def _environment_key(name: str) -> str | None:
    by_variable = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in _known_keys()}
    if name in by_variable:
        return by_variable[name]
    close = nearest(name, (variable.lower() for variable in by_variable))
    raise ConfigError(
        f"The environment variable {name} is no setting of the gate.",
        where=name,
        hint=f"Did you mean {close.upper()}? Unset it otherwise." if close else "Unset it.",
    )


def _environment_value(key: str, text: str) -> Any:
    from gate.strict_yaml import parse

    field_section, _, leaf = key.partition(".")
    annotation = (
        _SECTIONS[field_section].model_fields[leaf].annotation if field_section in _SECTIONS else Settings.model_fields[key].annotation
    )
    if annotation in (str, str | None) or key in ("budget.wall", "budget.device", "triage.minimize"):
        return text
    return parse(text.encode("utf-8", "surrogateescape"), ENVIRONMENT_PREFIX + key.replace(".", "_").upper()).data


def _refuse_unknown(document: Document) -> None:
    for key, value in document.data.items():
        if key not in Settings.model_fields:
            raise _unknown(document, (key,), Settings.model_fields)
        if key in _SECTIONS:
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{key!r} must be a mapping of keys to values.",
                    where=document.where((key,)),
                    hint="Write its keys indented below it; see docs/configuration.md.",
                )
            for leaf in value:
                if leaf not in _SECTIONS[key].model_fields:
                    raise _unknown(document, (key, leaf), _SECTIONS[key].model_fields)


def _unknown(document: Document, path: tuple[str, ...], known: Iterable[str]) -> ConfigError:
    known = list(known)
    close = nearest(path[-1], known)
    hint = f"Did you mean {close!r}?" if close else f"Known keys: {', '.join(known)}."
    return ConfigError(f"Unknown key {'.'.join(path)!r}.", where=document.where(path), hint=hint)


def _relative_to_file(key: str, value: Any, file: Path) -> Any:
    """Paths in a settings file are relative to that file; URIs and names stay as they are."""
    if key not in _PATHS or not isinstance(value, str) or "://" in value or re.match(r"[a-z_]+:/", value):
        return value
    if key in _NAMES_TOO and not (file.parent / value).exists():
        return value
    return str(file.parent / value) if not Path(value).is_absolute() else value


def _leaves(data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    result: list[tuple[str, Any]] = []
    for key, value in data.items():
        if key in _SECTIONS and isinstance(value, Mapping):
            result.extend((f"{key}.{leaf}", item) for leaf, item in value.items())
        else:
            result.append((key, value))
    return result


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    section, _, leaf = key.partition(".")
    if leaf:
        values.setdefault(section, {})[leaf] = value
    else:
        values[key] = value


def _tuples(value: Any) -> Any:
    """YAML lists become tuples: strict validation takes no list where a tuple is declared."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate can't be written to any file
    return value


def _explained(error: ValidationError, origin: Mapping[str, str]) -> ConfigError:
    first = error.errors()[0]
    loc = [part for part in first["loc"] if not (isinstance(part, str) and ("[" in part or part in ("tuple", "str", "int")))]
    key = ".".join(str(part) for part in loc if isinstance(part, str)) or "settings"
    key = next((known for known in _known_keys() if key == known or key.startswith(known + ".")), key)
    where = origin.get(key) or next((place for name, place in origin.items() if name.startswith(key + ".")), key)
    if first["type"] == "extra_forbidden":
        close = nearest(key.rsplit(".", 1)[-1], _known_keys())
        return ConfigError(f"Unknown key {key!r}.", where=where, hint=f"Did you mean {close!r}?" if close else None)
    message = str(first["msg"]).removeprefix("Value error, ")
    given = first.get("input")
    return ConfigError(f"{key}: {message} (given: {given!r}).", where=where, hint="See docs/configuration.md for what it takes.")
