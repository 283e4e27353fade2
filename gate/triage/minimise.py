"""Makes defects simpler: fewer operators, milder ones, a smaller stored change, as long as they still fail the same way.

What is tried is only ever less than what was there: nothing is made stronger, no operator is added. A candidate takes the place of the
best one so far only where it is valid under the policy, fails the same way (same oracle, same predicted class or fault, with the oracle's
margin), and is simpler in the order of ``gate.triage.simpler``; that order has no circles, so every search ends. In turn:

1. *Operators.* The recipe without each of its steps, and each step alone; the simplest that still fails, until none does. Once more after
   severities have got lower.
2. *Severities*, the greatest first, by bisection between 0 and the severity that fails. Failing is not monotone in severity (a picture
   turned by 10 degrees may be read right and one turned by 8 wrong), so bisection finds a *local* minimum: a severity that fails with one
   at most ``TOLERANCE`` below it that does not, which need not be the smallest one that fails.
3. *The stored change* of an attack or a splice: its strength by bisection, then the places it changes.
4. *Places*, block by block and then in smaller blocks, as in delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
   failure-inducing input", IEEE TSE 28(2), 2002): what can be taken back alone is taken back together as far as the failure stays.

A picture that a natural operator has changed in some places only is none that a camera makes, and its recipe would not make it again. So
places are taken back in the mutant itself only where its last step is stored anyway; for natural recipes the *smallest part of the change
that is enough* is kept beside the mutant, as information (``Minimal.part``, file ``part``).

Many defects are worked on at once, each with its own candidates, so that they go through the model in whole batches. The final form is run
alone from its saved file, as often as confirming does, before it replaces what was found; where it does not hold there, the one before it
is tried. Everything is booked in an allowance of model calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from gate.campaign.loop import Seeds
from gate.campaign.raising import exception_in_words
from gate.campaign.raising_steps import no_answers
from gate.campaign.supervisor import Refused, Worker
from gate.domains.domain import InputDomain
from gate.models.outputs import OutputKind
from gate.oracles import Observation, Oracle, observe
from gate.oracles.crash import Crash
from gate.oracles.timeout import Timeout
from gate.result import Defect, Minimal
from gate.triage.allowance import Allowance
from gate.triage.defect_files import remade, write_description
from gate.triage.forms import Form, Forms
from gate.triage.gravity import groups_by_gravity
from gate.triage.simpler import Simplicity, changed_share, defect_simplicity

__all__ = ["TOLERANCE", "Minimiser", "in_turn"]

TOLERANCE = 1 / 64  # of a severity
STRENGTH_TOLERANCE = 1 / 16  # of the strength of a stored change
BLOCKS = (2, 4, 8)  # along each side, one level after the other
EXPECTED = 16  # model calls that one defect is expected to take: so many are begun as there are likely to be calls for
EXPECTED_PLACES = 48  # of those whose places are taken back
TRIES = 3  # forms that are run alone from their file, the simplest first

Search = Generator[list[Form], list[bool], None]
Without = Callable[[Form, np.ndarray], Form]
Below = Callable[[Form], np.ndarray]

_MEMORY = 1 << 29  # bytes that candidates may take; it bounds how many defects are worked on at once


@dataclass
class _Open:
    """A defect that is being worked on."""

    defect: Defect
    forms: Forms
    row: int  # of the seed input
    seed: np.ndarray
    oracle: Oracle
    trail: list[Form]  # what took the place of what, the found form first; the last is the best
    search: Search
    asked: list[Form] = field(default_factory=list)  # candidates whose answers the search waits for
    known: dict[bytes, bool] = field(default_factory=dict)  # by a digest of the mutant: whether it fails the same way
    sound: set[Simplicity] = field(default_factory=set)  # of what is asked: simpler than the best, and valid
    calls: int = 0
    done: bool = False  # the search has come to its end

    @property
    def best(self) -> Form:
        return self.trail[-1]

    def go_on(self, answers: list[bool] | None) -> None:
        """Takes answers in, and has the search say what it asks next."""
        try:
            self.asked = next(self.search) if answers is None else self.search.send(answers)
        except StopIteration:
            self.asked, self.done = [], True
        del self.trail[1:-TRIES]  # which nobody goes back to


def in_turn(defects: Sequence[Defect]) -> list[Defect]:
    """One defect of each root cause, the gravest root cause first, then a second one of each, and so on; the simplest ones first."""
    ordered = [group for _, group in groups_by_gravity(defects)]
    for group in ordered:
        group.sort(key=defect_simplicity)
    return [group[turn] for turn in range(max(map(len, ordered), default=0)) for group in ordered if turn < len(group)]


class Minimiser:
    """Makes defects simpler, on disk and in their list.

    Args:
        worker: runs the model.
        domain: makes, checks, reads and writes samples.
        seeds: the seed inputs.
        run: the run folder.
        output_kind: how to read the model's output.
        oracles: those that look at mutants.
        allowance: what the model may be asked.
        batch_size: samples that go through the model at once.
        replays: how often a final form is run alone.
    """

    def __init__(
        self,
        worker: Worker,
        domain: InputDomain,
        seeds: Seeds,
        run: Path,
        output_kind: OutputKind,
        oracles: Sequence[Oracle],
        allowance: Allowance,
        *,
        batch_size: int,
        replays: int,
    ) -> None:
        self._worker = worker
        self._domain = domain
        self._seeds = seeds
        self._run = run
        self._output_kind = output_kind
        self._allowance = allowance
        self._batch_size = batch_size
        self._replays = replays
        self._rows = {identity: row for row, identity in enumerate(seeds.ids)}
        self._oracles = {oracle.name: oracle for oracle in oracles}
        sample = max(1, seeds.x[:1].nbytes)
        self._at_once = max(8, min(batch_size, _MEMORY // (BLOCKS[-1] ** 2 * sample)))

    def minimise(self, defects: list[Defect]) -> None:
        """Makes the defects simpler; items of the list are replaced as soon as their folder is whole."""
        waiting = [defect for defect in in_turn(defects) if self._suits(defect)]
        opened: list[_Open] = []
        while True:
            while waiting and self._may_begin(len(opened), EXPECTED):
                one = self._begin(waiting.pop(0))
                if one is not None:
                    opened.append(one)
            if not opened:
                return
            opened, ended = self._round(opened)
            for one in ended:
                self._finish(one, defects)

    def find_parts(self, defects: list[Defect], per_root_cause: int) -> None:
        """Looks for the smallest part of the change that is enough, for the simplest minimised defects of each root cause whose recipes are
        natural: it is kept beside the mutant."""
        chosen: dict[str, int] = defaultdict(int)
        waiting = []
        for defect in in_turn(defects):
            if defect.natural and defect.minimal is not None and self._suits(defect) and chosen[defect.root_cause] < per_root_cause:
                chosen[defect.root_cause] += 1
                waiting.append(defect)
        opened: list[_Open] = []
        while True:
            while waiting and self._may_begin(len(opened), EXPECTED_PLACES):
                one = self._begin(waiting.pop(0), part=True)
                if one is not None:
                    opened.append(one)
            if not opened:
                return
            opened, ended = self._round(opened)
            for one in ended:
                self._keep_part(one, defects)

    # Which, and how many at once.

    def _suits(self, defect: Defect) -> bool:
        """Whether a recipe made it out of a seed input, and its oracle judges one answer. A model that hangs costs too much time."""
        if defect.oracle == Timeout.name:
            return False
        return defect.label is not None and bool(defect.recipe) and defect.oracle in self._oracles and defect.seed_id in self._rows

    def _may_begin(self, opened: int, expected: int) -> bool:
        left = self._allowance.left
        return opened < self._at_once and (left >= (opened + 1) * expected or (opened == 0 and left > self._replays))

    def _begin(self, defect: Defect, *, part: bool = False) -> _Open | None:
        row = self._rows[defect.seed_id]
        seed = self._seeds.x[row]
        forms = Forms(self._domain, seed)
        found = forms.found(defect, self._domain.load(self._run / defect.files["mutant_data"]))
        if found is None:
            return None
        trail = [found]
        search = _part(forms, trail, seed) if part else _search(forms, trail)
        one = _Open(defect, forms, row, seed, self._oracles[defect.oracle], trail, search, known={found.digest: True})
        one.go_on(None)
        return one

    # One round: the candidates of all defects that are being worked on, in batches.

    def _round(self, opened: list[_Open]) -> tuple[list[_Open], list[_Open]]:
        """Those which go on, and those which have ended: for themselves, or because the allowance is too small for their candidates."""
        goes_on: list[_Open] = []
        ended: list[_Open] = []
        wanted: list[tuple[_Open, Form]] = []
        left = self._allowance.left
        for one in opened:
            asked = [] if one.done else self._unknown(one)
            # The last form of each has to be run alone afterwards, so calls for that are kept back.
            if one.done or len(wanted) + len(asked) + self._replays * (len(goes_on) + len(ended) + 1) > left:
                ended.append(one)
                continue
            goes_on.append(one)
            wanted += [(one, form) for form in asked]
        if not self._run_all(wanted):
            return [], [*ended, *goes_on]
        for one in goes_on:
            one.go_on([form.key in one.sound and one.known[form.digest] for form in one.asked])
        return goes_on, ended

    def _unknown(self, one: _Open) -> list[Form]:
        """The candidates that only the model can tell: simpler and valid ones, each picture once; notes which are so."""
        simpler = [form for form in one.asked if form.key < one.best.key and one.known.get(form.digest, True)]
        one.sound = set()
        if not simpler:
            return []
        mutants = np.stack([form.mutant for form in simpler])
        valid = self._domain.valid(mutants, np.repeat(one.seed[None], len(simpler), axis=0), [form.recipe for form in simpler])
        asked: dict[bytes, Form] = {}
        for form, sound in zip(simpler, valid, strict=True):
            if sound:
                one.sound.add(form.key)
                if form.digest not in one.known:
                    asked.setdefault(form.digest, form)
        return list(asked.values())

    def _run_all(self, wanted: list[tuple[_Open, Form]]) -> bool:
        """Notes of all candidates whether they fail; False where the allowance ended first."""
        for start in range(0, len(wanted), self._batch_size):
            part = wanted[start : start + self._batch_size]
            fails = self._fails(part)
            if fails is None:
                return False
            for (one, form), failed in zip(part, fails, strict=True):
                one.known[form.digest] = failed
        return True

    def _fails(self, part: list[tuple[_Open, Form]]) -> list[bool] | None:
        """Whether each fails as its defect does; None where the allowance has ended. Where the model raises, each is run alone."""
        answered = self._answers(part)
        if answered is None:
            return None
        seen = self._observed([one for one, _ in part], *answered)
        holds = {id(one.oracle): one.oracle.holds(seen) for one, _ in part}
        return [self._same(one, seen, row, holds[id(one.oracle)]) for row, (one, _) in enumerate(part)]

    def _answers(self, part: list[tuple[_Open, Form]]) -> tuple[np.ndarray, dict[int, str]] | None:
        """Raw outputs [N, K], not numbers where the model raised, and what it raised by row."""
        if not self._allowance.take(len(part)):
            return None
        for one, _ in part:
            one.calls += 1
        try:
            raw = self._worker.call("forward", {}, {"x": np.stack([form.mutant for _, form in part])})[1]["raw"]
        except Refused as error:
            if len(part) == 1:
                return no_answers(1, self._seeds.probabilities.shape[1], self._output_kind), {0: exception_in_words(error)}
            middle = len(part) // 2
            first, second = self._answers(part[:middle]), self._answers(part[middle:])
            if first is None or second is None:
                return None
            return np.concatenate([first[0], second[0]]), first[1] | {middle + row: text for row, text in second[1].items()}
        return raw, {}

    def _observed(self, ones: list[_Open], raw: np.ndarray, raised: dict[int, str]) -> Observation:
        rows = [one.row for one in ones]
        return observe(
            raw,
            self._output_kind,
            self._seeds.labels[rows],
            before=self._seeds.probabilities[rows],
            raw_before=None if self._seeds.raw is None else self._seeds.raw[rows],
            raised=raised,
        )

    def _same(self, one: _Open, seen: Observation, row: int, holds: np.ndarray) -> bool:
        """Whether a row shows the defect: its oracle holds, and the class, or the kind of exception, is the same."""
        wanted = -1 if one.defect.predicted is None else one.defect.predicted
        if not holds[row] or int(seen.predicted[row]) != wanted:
            return False
        return one.defect.oracle != Crash.name or _kind(seen.raised[row]) == _kind(one.defect.detail or "")

    # The end of one defect.

    def _finish(self, one: _Open, defects: list[Defect]) -> None:
        """Runs the simplest forms alone from their file, and writes the first that holds."""
        complete = one.done
        for form in one.trail[:0:-1][:TRIES]:
            sure = self._sure(one, form)
            if sure is not None:
                self._take_over(one, form, sure, complete, defects)
                return
            complete = False  # simpler ones fail in company, not alone
        if complete:  # nothing simpler was found
            new = one.defect.model_copy(update={"minimal": self._minimal(one, one.best, complete)})
            write_description(self._run, new)
            self._put(one, defects, new)

    def _sure(self, one: _Open, form: Form) -> list[Observation] | None:
        """What the model says of the form's file, run alone; None where it does not hold, or there is no allowance left to see."""
        place = self._run / "campaign" / "minimising"
        place.mkdir(parents=True, exist_ok=True)
        path = self._domain.save(place / "mutant", form.mutant)
        loaded = replace(form, mutant=self._domain.load(path))
        path.unlink()
        place.rmdir()
        answers = []
        for _ in range(self._replays):
            answered = self._answers([(one, loaded)])
            if answered is None:
                return None
            seen = self._observed([one], *answered)
            if not self._same(one, seen, 0, one.oracle.holds(seen)):
                return None
            answers.append(seen)
        return answers

    def _minimal(self, one: _Open, form: Form, complete: bool) -> Minimal:
        found = one.trail[0]
        return Minimal(
            found_recipe=one.defect.recipe,
            found_severity=one.defect.severity,
            found_area=changed_share(found.mutant, one.seed),
            area=changed_share(form.mutant, one.seed),
            model_calls=one.calls,
            complete=complete,
        )

    def _take_over(self, one: _Open, form: Form, seen: list[Observation], complete: bool, defects: list[Defect]) -> None:
        """The form becomes the defect's mutant; what was found stays beside it."""
        old = one.defect
        recipe = tuple(step.to_json() for step in form.recipe)
        families = tuple(sorted({self._domain.family(step.operator) for step in form.recipe}))
        base = f"defects/{old.id}"
        suffix = Path(old.files["mutant_data"]).suffix
        new = old.model_copy(
            update={
                "recipe": recipe,
                "operator": str(recipe[-1]["operator"]),
                "family": "+".join(families),
                "families": families,
                "natural": form.stored is None,
                "severity": round(float(sum(step.severity for step in form.recipe)), 6),
                "also": self._also(old, seen),
                "confidence_after": None if old.predicted is None else float(seen[0].probabilities[0, old.predicted]),
                "detail": seen[0].raised.get(0, old.detail),
                "minimal": self._minimal(one, form, complete),
                "files": {**old.files, "found": f"{base}/found.png", "found_data": f"{base}/found{suffix}"},
            }
        )

        def change(folder: Path) -> None:
            for name, sample in (("found", one.trail[0].mutant), ("mutant", form.mutant)):
                self._save(folder, name, sample)
            Image.fromarray(self._domain.difference(one.seed, form.mutant)).save(folder / "diff.png")

        remade(self._run, old, new, change)
        self._put(one, defects, new)

    def _also(self, old: Defect, seen: list[Observation]) -> tuple[str, ...]:
        """Other oracles that hold too; what was found by others than those that look at mutants stays."""
        asked = [name for name, oracle in self._oracles.items() if name != old.oracle and all(oracle.holds(one)[0] for one in seen)]
        return (*asked, *(name for name in old.also if name not in self._oracles))

    def _save(self, folder: Path, name: str, sample: np.ndarray) -> None:
        """Writes a sample with a picture to look at."""
        data = self._domain.save(folder / name, sample)
        if data.suffix != ".png":  # the sample's own file may be a picture already
            Image.fromarray(self._domain.picture(sample)).save(folder / f"{name}.png")

    def _keep_part(self, one: _Open, defects: list[Defect]) -> None:
        minimal = one.defect.minimal
        assert minimal is not None
        for form in one.trail[:0:-1][:TRIES]:
            if self._sure(one, form) is None:
                continue
            base = f"defects/{one.defect.id}"
            suffix = Path(one.defect.files["mutant_data"]).suffix
            kept = minimal.model_copy(update={"part": changed_share(form.mutant, one.seed), "model_calls": minimal.model_calls + one.calls})
            files = {**one.defect.files, "part": f"{base}/part.png", "part_data": f"{base}/part{suffix}"}
            new = one.defect.model_copy(update={"minimal": kept, "files": files})
            remade(self._run, one.defect, new, partial(self._save, name="part", sample=form.mutant))
            self._put(one, defects, new)
            return

    def _put(self, one: _Open, defects: list[Defect], new: Defect) -> None:
        place = next(place for place, defect in enumerate(defects) if defect.id == one.defect.id)
        defects[place] = one.defect = new


def _kind(exception: str) -> str:
    """The type of an exception that is told as ``type: text``."""
    return exception.partition(":")[0]


# ---------------------------------------------------------------------------------------------------------------------------------
# What one defect tries. A search yields candidates, is sent which of them fail the same way, and appends to the trail what it takes.


def _search(forms: Forms, trail: list[Form]) -> Search:
    milder = True
    while milder:
        yield from _fewer_steps(forms, trail)
        # What is milder by now may do with fewer steps, too: it may be valid where the stronger one was not.
        milder = (yield from _milder_steps(forms, trail)) and len(trail[-1].recipe) > 1
    stored = trail[-1].stored
    if stored is None:
        return
    if not stored.lays:
        whole, low, high = trail[-1], 0.0, 1.0
        while high - low > STRENGTH_TOLERANCE:
            middle = (low + high) / 2
            weaker = forms.weaker(whole, middle)
            (failed,) = yield [weaker]
            if failed:
                trail.append(weaker)
                high = middle
            else:
                low = middle
    yield from _fewer_places(trail, forms.without, lambda form: form.parent)


def _fewer_steps(forms: Forms, trail: list[Form]) -> Search:
    while True:
        tried = forms.fewer(trail[-1])
        if not tried:
            return
        fails = yield tried
        taken = next((form for form, failed in zip(tried, fails, strict=True) if failed), None)  # the simplest comes first
        if taken is None:
            return
        trail.append(taken)


def _milder_steps(forms: Forms, trail: list[Form]) -> Generator[list[Form], list[bool], bool]:
    """Whether any severity got lower."""
    before = trail[-1].key
    steps = trail[-1].steps
    for place in sorted(range(len(steps)), key=lambda one: (-steps[one].severity, one)):
        low, high = 0.0, float(steps[place].severity)
        while high - low > TOLERANCE:
            middle = (low + high) / 2
            milder = forms.milder(trail[-1], place, middle)
            (failed,) = yield [milder]
            if failed:
                trail.append(milder)
                high = middle
            else:
                low = middle
    return trail[-1].key < before


def _part(forms: Forms, trail: list[Form], seed: np.ndarray) -> Search:
    yield from _fewer_places(trail, lambda form, places: forms.part(form, ~places), lambda form: seed)


def _fewer_places(trail: list[Form], without: Without, below: Below) -> Search:
    """Takes places back, block by block, in smaller and smaller blocks.

    Args:
        trail: to which what is taken is appended.
        without: (form, bool [H, W]) -> the form with these places taken back.
        below: of a form, what its places are taken back to.
    """
    height, width = trail[-1].mutant.shape[:2]
    for blocks in BLOCKS:
        rows = np.arange(height) * blocks // height
        columns = np.arange(width) * blocks // width
        number = rows[:, None] * blocks + columns[None]
        refused: set[int] = set()
        while True:
            form = trail[-1]
            changed = np.unique(number[(form.mutant != below(form)).any(axis=-1)]).tolist()
            there = [one for one in changed if one not in refused]
            if not there or len(changed) == 1:  # taking the only one back leaves nothing
                break
            alone = [without(form, number == one) for one in there]
            fails = yield alone
            free = [one for one, failed in zip(there, fails, strict=True) if failed]
            refused |= set(there) - set(free)
            if not free:
                break
            # Blocks that can be taken back one by one need not be so together.
            counts = sorted({max(1, len(free) >> halvings) for halvings in range(len(free).bit_length())}, reverse=True)
            together = [without(form, np.isin(number, free[:count])) for count in counts]
            fails = yield together
            taken = next((one for one, failed in zip(together, fails, strict=True) if failed), None)
            if taken is None:
                break
            trail.append(taken)
