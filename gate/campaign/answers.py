"""What the supervisor believes of the worker's answers: the model's code runs in that process and may have written them itself.

Every answer is held to the request it belongs to, and to what earlier answers have settled: the number of rows that were sent, the number
of columns which the model answered with first, the criteria that were asked for, and that coverage only grows and by no more than there
is to cover (statistics, which may fall, need only be numbers). What can't be checked (which of the classes gets the highest score) is the
model's own business; what can be is never left to a later crash or, worse, a later verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gate.campaign.ascent_options import Ascent
from gate.campaign.attribution_work import MOST_NAMED, heat_work, patch_work
from gate.campaign.wire import Arrays
from gate.config import CoverageSettings, kind_of
from gate.coverage.map_file import check_parts
from gate.errors import ConfigError, GateError, InputShapeError, ModelError, WorkerError
from gate.result import UNREACHED_EXAMPLES, UNREACHED_PLACES

__all__ = ["Answers"]

Fields = Mapping[str, Any]

_LARGEST = 1 << 53  # no count in a campaign is larger
_HUGE = 1e300  # JSON knows whole numbers that no float can hold
_LONGEST = 4000  # characters kept of an error's text
_LONGEST_EXAMPLE = 300
_ROUNDING = 1e-9
_KINDS: dict[str, type[GateError]] = {kind.__name__: kind for kind in (ModelError, ConfigError, InputShapeError)}
# Where the settings meet the model. Later on nothing that the user wrote can be the cause.
_SETTINGS_MATTER = frozenset({"load", "layers", "watch", "profile", "cover_seeds", "forward", "run", "record", "count"})


class Answers:
    """Checks one worker's answers in the order in which they come. Lives in the supervisor."""

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[Fields, Arrays, Fields, Arrays], None]] = {
            "load": self._load,
            "describe": self._describe,
            "forward": self._forward,
            "features": self._features,
            "scorable": self._scorable,
            "score": self._score,
            "layers": self._layers_of_model,
            "layer_ranges": self._ranges_of_layers,
            "watch": self._watch,
            "profile": self._nothing,
            "cover_seeds": self._nothing,
            "open_arms": self._open_arms,
            "run": self._run,
            "record": self._record,
            "count": self._run_kept,
            "coverage": self._coverage,
            "coverage_state": self._coverage_state,
            "restore": self._nothing,
            "items": self._items,
            "run_kept": self._run_kept,
            "missed": self._nothing,
            "mutate": self._mutate,
            "join": self._nothing,
            "aim": self._aim,
            "screen": self._screen,
            "climb": self._climb,
            "descend": self._descend,
            "numeric_path": self._numeric_path,
            "climb_marks": self._climb_marks,
            "patch": self._patch,
            "heat": self._heat,
            "plant": self._plant,
            "unplant": self._unplant,
            "sound": self._forward,
        }
        self._forget()

    def check(self, operation: str, parameters: Fields, sent: Mapping[str, np.ndarray], fields: Fields, arrays: Arrays) -> None:
        """Refuses an answer that this request can't have.

        Args:
            operation: of the request.
            parameters: of the request.
            sent: tensors of the request.
            fields: JSON fields of the answer.
            arrays: tensors of the answer.

        Raises:
            WorkerError: what is wrong with it.
        """
        try:
            _need(_finite(fields), "a number that is not finite")
            self._checks[operation](parameters, dict(sent), fields, arrays)
        except _WrongError as error:
            raise WorkerError(
                f"The worker's answer to {operation!r} can't be true: {error}.",
                where="worker process",
                hint="Code of the model interferes with the process that runs it; look at what the model imports and does.",
            ) from error

    def error(self, operation: str, error: Fields) -> GateError:
        """The error that the worker reports, if it may report one of that kind; else the error which that is."""
        name, what = str(error.get("kind")), str(error.get("what"))[:_LONGEST]
        where, hint = (None if error.get(part) is None else str(error[part])[:_LONGEST] for part in ("where", "hint"))
        kind = _KINDS.get(name)
        if kind is ModelError or (kind is not None and operation in _SETTINGS_MATTER):
            return kind(what, where=where, hint=hint)
        return WorkerError(f"The worker failed: {what}.", where="worker process")

    def _forget(self) -> None:
        self._columns: int | None = None
        self._features_wide: int | None = None
        self._surveyed: dict[str, int] = {}  # neurons by layer
        self._criteria: tuple[str, ...] = ()
        self._layers: dict[str, int] = {}
        self._asked: dict[str, Any] = {}  # coverage settings
        self._covered: dict[str, dict[str, float]] = {}  # by arm and criterion
        self._gained: dict[str, float] = {}  # by arm
        self._earned: dict[str, int] = {}  # executions that earn, by arm
        self._opened: dict[str, float] = {}  # by criterion: what every arm starts from
        self._unplanted: tuple[Any, Any, Any] | None = None  # of the real campaign, while a fault is planted

    @property
    def _classes(self) -> int:
        """That the model tells apart; 0 before its first answer."""
        return 2 if self._columns == 1 else self._columns or 0

    # One method per request.

    def _load(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        self._forget()
        _names(arrays, ())
        _keys(fields, ("training", "parameters", "fingerprint"))
        _need(isinstance(fields["training"], list) and all(isinstance(name, str) for name in fields["training"]), "training is no names")
        _count(fields["parameters"], "parameters")
        said = fields["fingerprint"]
        _keys(said, ("torch", "device", "threads", "python", "amp"))
        _need(all(isinstance(said[name], str) for name in ("torch", "device", "python", "amp")), "the fingerprint is no text")
        _count(said["threads"], "threads")

    def _describe(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _names(arrays, ())
        _keys(fields, ("first_layer", "model_input", "model_calls", "compile", "micro_batch", "gradient_batch"))
        _need(all(isinstance(fields[name], str | None) for name in ("first_layer", "model_input")), "the description is no text")
        _count(fields["model_calls"], "model_calls")
        _need(isinstance(fields["compile"], str), "compile is no text")
        for name in ("micro_batch", "gradient_batch"):
            if fields[name] is not None:
                _count(fields[name], name, least=1)

    def _forward(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ("raw",))
        self._raw(sent, arrays)

    def _raw(self, sent: Arrays, arrays: Arrays) -> None:
        raw = arrays["raw"]
        _need(raw.dtype == np.float32, f"outputs of dtype {raw.dtype}")
        rows = len(sent["x"])
        columns = raw.shape[1] if raw.ndim == 2 and self._columns is None else self._columns
        _need(
            raw.ndim == 2 and len(raw) == rows and raw.shape[1] == columns and raw.shape[1] > 0,
            f"outputs {list(raw.shape)} for {rows} inputs" + (f" and {columns} columns until now" if columns else ""),
        )
        self._columns = columns

    def _features(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("head",))
        _need(isinstance(fields["head"], str), "the head has no name")
        _names(arrays, ("features",))
        features = arrays["features"]
        _need(features.dtype.kind == "f" and features.ndim == 2 and len(features) == len(sent["x"]), "features of another shape")
        self._features_wide = self._features_wide or features.shape[1]
        _need(features.shape[1] == self._features_wide > 0, f"{features.shape[1]} features, {self._features_wide} until now")

    def _scorable(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("features", "dropout"))
        _names(arrays, ())
        _need(all(isinstance(value, bool) for value in fields.values()), "what can be scored is neither true nor false")

    def _score(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ("score",))
        score, rows, kind = arrays["score"], len(sent["x"]), parameters["score"]
        _need(score.dtype == np.float64 and score.shape == (rows,), f"scores {score.dtype} {list(score.shape)} for {rows} inputs")
        _need(bool(np.isfinite(score).all()) and bool((score >= 0).all()), "scores out of range")
        if kind != "gradient":
            # C probabilities that sum to one can't be further apart, nor can fewer than one replay agree with itself.
            _need(bool((score <= 1 + _ROUNDING).all()), f"a score {kind} above 1")
        if kind == "replays":
            _need(bool((score * parameters["passes"] >= 1 - _ROUNDING).all()), "fewer than one replay that agrees with itself")

    def _layers_of_model(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _names(arrays, ())
        _keys(fields, ("layers", "problem"))
        _need(isinstance(fields["layers"], list), "the layers are no list")
        self._surveyed = {}
        for row in fields["layers"]:
            _keys(row, ("name", "type", "kind", "neurons", "calls", "head", "auto", "watchable", "watched"))
            _need(all(isinstance(row[name], str) for name in ("name", "type", "kind")), "a layer without a name")
            _need(all(isinstance(row[name], bool) for name in ("head", "watchable", "watched")), "head is neither true nor false")
            _need(isinstance(row["auto"], str | None), "the reason is no text")
            _count(row["neurons"], "neurons")
            _count(row["calls"], "calls")
            _need(row["name"] not in self._surveyed, f"the layer {row['name']!r} twice")
            self._surveyed[row["name"]] = row["neurons"]
        problem = fields["problem"]
        if problem is not None:
            _keys(problem, ("what", "where", "hint"))
            _need(all(isinstance(part, str) for part in problem.values()), "the problem is no text")

    def _ranges_of_layers(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _names(arrays, ())
        _keys(fields, ("ranges",))
        _need(isinstance(fields["ranges"], dict), "the ranges are no table")
        for name, said in fields["ranges"].items():
            _need(name in self._surveyed, f"a range of {name!r}, which is no layer")
            _keys(said, ("range", "constant", "nonfinite"))
            for part in ("constant", "nonfinite"):
                _count(said[part], part)
                _need(said[part] <= self._surveyed[name], f"more {part} neurons than {name!r} has")
            if said["range"] is not None:
                _keys(said["range"], ("low", "low_median", "low_max", "high_min", "high_median", "high"))
                for part, value in said["range"].items():
                    _number(value, f"{part} of {name!r}")

    def _watch(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _names(arrays, ())
        _keys(fields, ("layers", "gradients", "steerable"))
        for name in ("gradients", "steerable"):
            _need(isinstance(fields[name], bool), f"{name} is neither true nor false")
        layers = fields["layers"]
        _need(isinstance(layers, dict) and len(layers) > 0, "no layers")
        for name, neurons in layers.items():
            _count(neurons, f"neurons of {name!r}", least=1)
        self._asked = {**CoverageSettings().model_dump(mode="json"), **parameters["coverage"]}
        self._asked["guide"] = self._asked["guide"] or self._asked["criteria"]
        self._criteria = tuple(self._asked["criteria"])
        self._layers = dict(layers)
        self._covered, self._gained, self._earned = {}, {}, {}

    def _nothing(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ())

    def _open_arms(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _names(arrays, ())
        _keys(fields, ("coverage", "layers"))
        self._layer_ranges(fields["layers"])
        initial = self._values(fields["coverage"])
        self._opened = dict(initial)
        self._covered = {arm: dict(initial) for arm in parameters["arms"]}
        self._gained = dict.fromkeys(parameters["arms"], 0.0)
        self._earned = dict.fromkeys(parameters["arms"], 0)

    def _plant(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        self._nothing(parameters, sent, fields, arrays)
        self._unplanted = self._covered, self._gained, self._earned
        self._covered, self._gained, self._earned = {"search": dict(self._opened)}, {"search": 0.0}, {"search": 0}

    def _unplant(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        self._nothing(parameters, sent, fields, arrays)
        assert self._unplanted is not None
        (self._covered, self._gained, self._earned), self._unplanted = self._unplanted, None

    def _layer_ranges(self, said: Any) -> None:
        _need(isinstance(said, list) and len(said) == len(self._layers), "the layers are no list of those that are watched")
        for layer, name in zip(said, self._layers, strict=True):
            _keys(layer, ("name", "type", "neurons", "head", "low", "high", "constant"))
            _need(layer["name"] == name and layer["neurons"] == self._layers[name], f"another layer than {name!r}")
            _need(isinstance(layer["type"], str) and isinstance(layer["head"], bool), f"the layer {name!r} has no type")
            _count(layer["constant"], "constant")
            _need(layer["constant"] <= layer["neurons"], f"more constant neurons than {name!r} has")
            low, high = layer["low"], layer["high"]
            _need((low is None) == (high is None), f"half a range of {name!r}")
            if low is not None:
                _need(_number(low, name) <= _number(high, name), f"the range of {name!r} ends below its beginning")

    def _run(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        arm = parameters["arm"]
        if arm is None:
            self._forward(parameters, sent, fields, arrays)
            return
        _keys(fields, ("valid", "raw", "discovery"))
        _names(arrays, ("raw", "new_items", "added", "signature"))
        self._raw(sent, arrays)
        valid, raw = self._values(fields["valid"]), self._values(fields["raw"])
        for name, value in valid.items():
            if kind_of(name) != "statistic":
                _need(value + _ROUNDING >= self._covered[arm][name], f"coverage {name} fell from {self._covered[arm][name]} to {value}")
                _need(raw[name] + _ROUNDING >= value, f"coverage {name} of all mutants is {raw[name]}, that of the valid ones {value}")
        self._earned[arm] += int(sent["earns"].sum())
        self._new_items(arm, sent["earns"], arrays["new_items"])
        self._added(sent["earns"], arrays["added"], arrays["new_items"])
        signed = arrays["signature"]
        _need(signed.dtype == np.int64 and signed.shape == sent["earns"].shape, f"signatures are {signed.dtype} {list(signed.shape)}")
        _need(not signed[~sent["earns"]].any(), "signatures of mutants which earn no coverage")
        _keys(fields["discovery"], self._criteria)
        for estimate in fields["discovery"].values():
            if estimate is not None:
                self._estimate(arm, estimate)
        self._covered[arm] = valid

    def _record(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ("raw", "acts"))
        self._raw(sent, arrays)
        shape = (len(sent["x"]), sum(self._layers.values()))
        _need(arrays["acts"].dtype == np.float32 and arrays["acts"].shape == shape, "activations of another shape")

    def _run_kept(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        self._run(parameters, {"x": sent["earns"], **sent}, fields, arrays)  # as many rows, which the worker has already

    def _new_items(self, arm: str, earns: np.ndarray, new: np.ndarray) -> None:
        _need(new.dtype == np.float64 and new.shape == earns.shape, f"new_items are {new.dtype} {list(new.shape)}")
        _need(bool(np.isfinite(new).all()) and bool((new >= 0).all()), "new_items out of range")
        _need(not new[~earns].any(), "coverage for mutants which earn none")
        room = _room(self._asked, self._layers, self._classes)
        if room.once is None:
            return
        _need(bool((new == np.floor(new)).all()), "new_items in fractions")
        _need(bool((new <= room.once).all()), f"more than the {room.once} items that one mutant can cover")
        self._gained[arm] += float(new.sum())
        _need(self._gained[arm] <= room.fixed + room.growing * self._earned[arm], "more newly covered items than there are")

    def _added(self, earns: np.ndarray, added: np.ndarray, new: np.ndarray) -> None:
        _need(added.dtype == np.float64 and added.shape == (len(earns), len(self._criteria)), f"added is {added.dtype} {list(added.shape)}")
        _need(bool(np.isfinite(added).all()) and not added[~earns].any(), "coverage for mutants which earn none, by criterion")
        guides = [name in self._asked["guide"] for name in self._criteria]
        _need(
            bool(np.allclose(np.maximum(added[:, guides], 0).sum(axis=1), new, rtol=1e-9, atol=0)),
            "new_items are not what the guides added",
        )
        sets = [kind_of(name) != "statistic" for name in self._criteria]
        _need(bool((added[:, sets] >= 0).all()), "items taken away")

    def _estimate(self, arm: str, said: Any) -> None:
        _keys(said, ("executions", "chance", "seen"))
        _count(said["executions"], "executions")
        _need(said["executions"] <= self._earned[arm], "an estimate from more executions than there were")
        _share(said["chance"], "chance")
        if said["seen"] is not None:
            _share(said["seen"], "seen")

    def _coverage(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _names(arrays, ())
        _keys(fields, ("criteria",))
        _keys(fields["criteria"], self._criteria)
        for criterion, said in fields["criteria"].items():
            _keys(said, ("covered", "total", "by_layer", "by_class", "nonfinite", "unreached"))
            _count(said["covered"], "covered")
            _count(said["nonfinite"], "nonfinite")
            if said["total"] is not None:
                _count(said["total"], "total", least=said["covered"])
            _need(isinstance(said["by_layer"], dict), "by_layer is no table")
            for name, value in said["by_layer"].items():
                _value(value, criterion, f"coverage of {name!r}")
            self._adds_up(criterion, said)
            _need(isinstance(said["by_class"], list), "by_class is no list")
            _need(len(said["by_class"]) in (0, self._classes if criterion == "output" else 0), "coverage of classes that there are not")
            for share in said["by_class"]:
                _share(share, "coverage of a class")
            self._unreached(criterion, said)

    def _adds_up(self, criterion: str, said: Fields) -> None:
        """Counts must come to the value that the search arm has had since its last batch."""
        value, kind = self._covered["search"][criterion], kind_of(criterion)
        _need(kind == "share" or said["total"] is None, f"{criterion} has no fixed number of items")
        if kind == "share":
            _need(said["total"] is not None, f"{criterion} has a fixed number of items")
            counted = said["covered"] / said["total"] if said["total"] else 0.0
            _need(abs(counted - value) <= _ROUNDING, f"{said['covered']} of {said['total']} items of {criterion} are not {value}")
        elif kind == "count":
            _need(said["covered"] == value, f"{said['covered']} patterns of {criterion} are not {value}")

    def _unreached(self, criterion: str, said: Fields) -> None:
        places, total = said["unreached"], said["total"]
        _need(isinstance(places, list) and len(places) <= UNREACHED_PLACES, "the places that were not reached are no short list")
        _need(not places or total is not None, f"{criterion} has no items that could be left")
        for row in places:
            _keys(row, ("place", "items", "total", "untouched", "examples"))
            place = row["place"]
            if criterion == "output":
                _need(isinstance(place, str) and place.isascii() and place.isdecimal() and len(place) < 10, "a place is no class")
            else:
                _need(isinstance(place, str) and place in self._layers, "a place is no watched layer")
            for name in ("items", "total", "untouched"):
                _count(row[name], name)
            _need(0 < row["items"] <= row["total"] <= total, f"{criterion} has left {row['items']} of {row['total']} items")
            _need(row["untouched"] <= self._layers.get(place, 0), "more neurons untouched than there are")
            texts = row["examples"]
            _need(isinstance(texts, list) and len(texts) <= UNREACHED_EXAMPLES, "the examples are no short list")
            _need(all(isinstance(text, str) and len(text) <= _LONGEST_EXAMPLE for text in texts), "an example is no short text")
        _need(not places or sum(row["items"] for row in places) <= total - said["covered"], f"{criterion} has more left than it lacks")

    def _coverage_state(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("criteria",))
        _keys(fields["criteria"], self._criteria)
        try:
            check_parts(fields["criteria"], arrays)
        except ValueError as error:
            raise _WrongError(str(error)) from error
        for name, described in fields["criteria"].items():
            _need(described["criterion"] == name, f"{name} is called another criterion")
            _need(list(described["layers"].items()) == list(self._layers.items()), f"{name} has other layers than those watched")

    def _items(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, [name for name in self._criteria if kind_of(name) != "statistic"])
        for name, hits in arrays.items():
            pairs = hits.dtype == np.int64 and hits.ndim == 2 and hits.shape[0] == 2
            _need(pairs, f"the items of {name} are {hits.dtype} {list(hits.shape)}")
            _need(bool(((hits[0] >= 0) & (hits[0] < len(sent["x"]))).all()), f"items of {name} covered by samples that were not sent")
            _need(bool((hits[1] >= 0).all()), f"items of {name} without a number")

    def _mutate(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ("x",))
        made, parents = arrays["x"], sent["x"]
        _need(
            made.shape == parents.shape and made.dtype == parents.dtype,
            f"mutants {made.dtype} {list(made.shape)} of inputs {parents.dtype} {list(parents.shape)}",
        )

    def _aim(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ("places", "targets"))
        places, targets = arrays["places"], arrays["targets"]
        _need(places.dtype == targets.dtype == np.int64 and places.ndim == 1 and places.shape == targets.shape, "no places and targets")
        enough = len(places) <= parameters["count"] if parameters.get("together") else len(places) in (0, parameters["count"])
        _need(enough, f"{len(places)} places where {parameters['count']} were asked for")
        _need(bool((places >= 0).all()), "places that there are not")
        neurons = sum(self._layers.values()) * len(self._asked["guide"])
        _need(bool(((targets >= 0) & (targets < neurons)).all()), "targets that there are not")

    def _screen(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ("stretches", "shares"))
        stretches, shares, most = arrays["stretches"], arrays["shares"], sent["most"]
        _need(stretches.dtype == shares.dtype == np.int64 and stretches.ndim == 1 and stretches.shape == shares.shape, "no mutants")
        _need(len(stretches) <= parameters["count"], f"{len(stretches)} mutants where {parameters['count']} were asked for")
        _need(bool(((stretches >= 0) & (stretches < len(most))).all()), "stretches that there are not")
        _need(bool(((shares >= 0) & (shares < len(parameters["shares"]))).all()), "shares that there are not")
        _need(bool((np.array(parameters["shares"])[shares] <= most[stretches]).all()), "mutants beyond what a stretch allows")

    def _climb(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("work",))
        _names(arrays, ("x", "rows"))
        ascent = Ascent(**{**parameters["ascent"], "multiples": tuple(parameters["ascent"]["multiples"])})
        most = len(sent["x"]) * ascent.executions()
        self._mutants_of(sent, arrays, most)
        _count(fields["work"], "work", least=len(arrays["x"]))
        _need(fields["work"] <= len(sent["x"]) * ascent.work(), "more work than a climb takes")

    def _descend(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("work",))
        _names(arrays, ("x", "rows"))
        most = len(sent["x"]) * parameters["descent"]["num_steps"]
        self._mutants_of(sent, arrays, most)
        _count(fields["work"], "work", least=len(arrays["x"]))
        _need(fields["work"] <= most * 3 + len(arrays["x"]), "more work than a descent takes")

    def _mutants_of(self, sent: Arrays, arrays: Arrays, most: int) -> None:
        """At most so many mutants, and which of the inputs each came from."""
        made, rows, parents = arrays["x"], arrays["rows"], sent["x"]
        _need(rows.dtype == np.int64 and rows.ndim == 1 and len(rows) == len(made) <= most, "mutants that were not asked for")
        _need(made.shape[1:] == parents.shape[1:] and made.dtype == parents.dtype, f"mutants {made.dtype} {list(made.shape)}")
        _need(bool(((rows >= 0) & (rows < len(parents))).all()), "mutants of inputs that were not sent")

    def _numeric_path(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("supported",))
        _need(isinstance(fields["supported"], bool), "supported is neither true nor false")
        _names(arrays, ("raw",) if fields["supported"] else ())
        if fields["supported"]:
            self._raw(sent, arrays)

    def _climb_marks(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ())
        _names(arrays, ("pictures", "scores", "moved"))
        made, given = arrays["pictures"], sent["pictures"]
        _need(made.shape == given.shape and made.dtype == given.dtype, f"marks {made.dtype} {list(made.shape)} of {list(given.shape)}")
        _need(bool(np.isfinite(made).all()), "marks that are not finite")
        for name in ("scores", "moved"):
            values = arrays[name]
            _need(values.shape == (len(given),) and values.dtype == np.float64, f"{name} of another shape")
            _need(bool(((values >= 0) & (values <= 1 + _ROUNDING)).all()), f"{name} that are no shares")

    def _patch(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("tried", "of", "reason", "work"))
        _names(arrays, ("layers", "neurons", "effects", "restores"))
        layers, neurons, effects, restores = (arrays[name] for name in ("layers", "neurons", "effects", "restores"))
        widths = np.array(list(self._layers.values()))
        _need(layers.dtype == neurons.dtype == np.int64 and layers.ndim == 1 and layers.shape == neurons.shape, "no neurons")
        _need(effects.dtype == np.float64 and restores.dtype == np.bool_, f"effects {effects.dtype}, restores {restores.dtype}")
        _need(effects.shape == restores.shape == layers.shape and len(layers) <= MOST_NAMED, "neurons without an effect, or too many")
        _need(bool(((layers >= 0) & (layers < len(widths))).all()), "layers that are not watched")
        _need(bool(((neurons >= 0) & (neurons < widths[layers])).all()), "neurons that there are not")
        _need(len(set(zip(layers.tolist(), neurons.tolist(), strict=True))) == len(layers), "a neuron twice")
        _need(bool(np.isfinite(effects).all()) and bool((np.diff(effects) <= 0).all()), "effects that do not fall")
        _count(fields["of"], "of")
        _count(fields["tried"], "tried")
        _need(fields["tried"] <= min(parameters["most"], fields["of"]) and fields["of"] <= int(widths.sum()), "more neurons than there are")
        _need(_is_short(fields["reason"]) if fields["reason"] is not None else True, "the reason is no short text")
        _count(fields["work"], "work")
        _need(fields["work"] <= patch_work(parameters["most"]), "more work than restoring neurons takes")

    def _heat(self, parameters: Fields, sent: Arrays, fields: Fields, arrays: Arrays) -> None:
        _keys(fields, ("method", "layer", "work"))
        _need(fields["method"] in (None, "grad_cam_pp", "rollout", "occlusion"), "an unknown method")
        _need(fields["layer"] is None or _is_short(fields["layer"]), "the layer has no short name")
        _count(fields["work"], "work")
        _need(fields["work"] <= heat_work(parameters["grid"]), "more work than heat maps take")
        _names(arrays, () if fields["method"] is None else ("maps",))
        if fields["method"] is not None:
            maps, x = arrays["maps"], sent["x"]
            _need(maps.dtype == np.float32 and maps.ndim == 3 and len(maps) == len(x), f"heat {maps.dtype} {list(maps.shape)}")
            _need(0 < maps.shape[1] <= x.shape[1] and 0 < maps.shape[2] <= x.shape[2], "heat in more places than the picture has")
            _need(bool(np.isfinite(maps).all()) and bool((maps >= 0).all()), "heat out of range")
            _need(bool((maps.max(axis=(1, 2)) > 0).all()), "no heat at all")

    def _values(self, said: Any) -> dict[str, float]:
        """Values by criterion, each of its kind."""
        _keys(said, self._criteria)
        return {name: _value(value, name, f"coverage {name}") for name, value in said.items()}


@dataclass(frozen=True)
class _Room:
    """What the guiding criteria can cover together."""

    fixed: int  # items of those that have a fixed number
    growing: int  # patterns that one execution can add
    once: int | None  # the most that one execution can cover; None where a statistic guides, whose gain knows no bound


def _room(asked: Fields, layers: Mapping[str, int], classes: int) -> _Room:
    """The room that the settings leave for these layers and so many classes."""
    neurons, number = sum(layers.values()), len(layers)
    fixed = {
        "nc": (neurons, neurons),
        "kmnc": (neurons * asked["kmnc_sections"], neurons),
        "nbc": (2 * neurons, neurons),
        "snac": (neurons, neurons),
        "tknc": (neurons, number * asked["tknc_k"]),
        "output": (classes * asked["output_sections"], 1),
        **dict.fromkeys(("lsa", "dsa", "mdsa"), (asked["surprise_sections"], 1)),
    }
    groups = {
        "tknp": 1 if asked["tknp_joint"] else number,
        "map": max(1, number - (asked["map_window"] or number) + 1),
    }
    guides = asked["guide"]
    growing = sum(groups.get(name, 0) for name in guides)
    bounded = all(kind_of(name) != "statistic" for name in guides)
    once = growing + sum(fixed[name][1] for name in guides if name in fixed)
    return _Room(sum(fixed[name][0] for name in guides if name in fixed), growing, once if bounded else None)


class _WrongError(Exception):
    """What is wrong with an answer."""


def _need(holds: bool, wrong: str) -> None:
    if not holds:
        raise _WrongError(wrong)


def _keys(said: Any, wanted: Sequence[str]) -> None:
    _need(isinstance(said, dict) and set(said) == set(wanted), f"the fields must be {', '.join(sorted(wanted)) or 'none'}")


def _names(arrays: Arrays, wanted: Sequence[str]) -> None:
    _need(set(arrays) == set(wanted), f"the tensors must be {', '.join(sorted(wanted)) or 'none'}")


def _count(value: Any, name: str, *, least: int = 0) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    _need(whole and least <= value <= _LARGEST, f"{name} is no count of at least {least}")


def _number(value: Any, name: str) -> float:
    _need(isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _HUGE, f"{name} is no number")
    return float(value)


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_EXAMPLE


def _share(value: Any, name: str) -> float:
    share = _number(value, name)
    _need(0 <= share <= 1, f"{name} is no share between 0 and 1")
    return share


def _value(value: Any, criterion: str, what: str) -> float:
    """A criterion's value, of its kind."""
    kind = kind_of(criterion)
    if kind == "share":
        return _share(value, what)
    number = _number(value, what)
    if kind == "count":
        _need(0 <= number <= _LARGEST and number.is_integer(), f"{what} is no count")
    return number


def _finite(value: Any) -> bool:
    """JSON writes no infinity, but 1e999 is read as one."""
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
