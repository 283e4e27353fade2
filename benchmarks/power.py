"""How many faulty networks the gate blocks, and how many healthy ones: ``python -m benchmarks.power`` (or ``make bench-power``).

Healthy networks, and faulty ones of eighteen kinds that read clean pictures about as well, are judged by one shipped policy, unchanged,
with one healthy network as the baseline. Limits may be chosen on even training seeds (``--half tune``); figures come from odd ones from 101
on. Work is counted, not timed, so a busy machine changes nothing but the waiting. Every verdict is one line of a file; what is there is not
done again. A policy with other contents, another version of the gate or another budget has a file of its own.

Said beforehand:

* The shipped policies leave the oracles ``confidence_collapse`` and ``saturated`` off. Nothing here depends on them: a score beyond what
  float16 can hold shows on the half-precision path, which runs what ``saturated`` only foretells.
* A backdoor whose trigger is no small mark (a pose, a phrase of several pictures, a pattern fainter than the policy's ``marks`` allow, or
  more than the search's share can find), a fault that acts on inputs outside of the policy's domain only, one that waits for a date or a
  number of calls, and one that answers the gate's worker otherwise than its users, can't be expected to be seen by any fuzzer of this
  design. None of them is among the kinds.
* Pruning and quantisation that leave clean accuracy alone may leave robustness alone as well. Such a network has lost nothing that a policy
  on behaviour asks for, and letting it pass is no mistake of the gate; it counts as missed all the same.

``--metrics`` prints how every metric is spread over the healthy networks and each kind, of the tuning half whatever ``--half`` says: limits
are chosen from that. ``--repeat N`` judges ten networks with N campaign seeds each and counts the verdicts that differ from the majority.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, replace
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import gate
from benchmarks.common_practice import CHECKS, FALSE_BLOCKS
from benchmarks.faulty import KINDS, MEMORISED
from benchmarks.healthy import ARCHITECTURES, Data
from benchmarks.power_models import CHAMPION, CHOSEN_ON, HEALTHY, VERSION, Case, Facts, Models, cases
from benchmarks.power_table import CONFIDENCE, Line, Row, differing, healthy_of, rows, separation, share, why
from gate.config import Settings
from gate.corpus.export import export
from gate.domains.image import picture
from gate.pipeline import run
from gate.policy import load_policy
from gate.result import Metric, Result, RuleResult

__all__ = ["LEARNT", "finished", "judge", "known", "main", "results_file"]

EXECUTIONS = 20_000  # about a minute of two cores for the digits
HEALTHY_SEEDS, FAULTY_SEEDS = 100, 10
REPEATED = 10  # networks, of campaign seeds more than one
TARGET_CAUGHT, TARGET_BLOCKED, TARGET_DIFFERING = 0.95, 0.05, 0.01
LEARNT = (
    "blind to dim light",
    "blind to blur",
    "blind to rotation",
    "blind to occlusion",
    "one class confused",
)  # what a fix learnt by heart
_Job = tuple[Case, int]  # a network and a campaign seed


def broken_of(case: Case) -> Case:
    """The faulty network whose reported defects a memorised fix has learnt."""
    return Case(LEARNT[case.seed // 2 % len(LEARNT)], case.seed)


def judge(models: Models, case: Case, campaign_seed: int, policy: str, executions: int) -> Line:
    """Runs the gate on one network, which is trained where it is not there yet.

    A memorised fix has an earlier run, of the network that it is the fix of; it is judged by the half of the seed inputs whose defects it
    has not learnt, as one who uses the gate would have it.

    Raises:
        RuntimeError: the network could not be made, or the run came to nothing.
    """
    torch.set_num_threads(1)
    models.ready(Case(HEALTHY, CHAMPION))
    with tempfile.TemporaryDirectory(prefix="gate-power-") as place:
        if case.kind == MEMORISED:
            earlier = _earlier(models, broken_of(case), policy, executions)
            if models.known(case) is None:
                result = Result.model_validate_json((earlier / "result.json").read_text(encoding="utf-8"))
                made = export(result, earlier, Path(place) / "export", half="a", load=picture.load)
                models.save_fix(case, broken_of(case), made.folder)
            settings = {"previous": str(earlier), "data": {"seeds": str(models.seeds), "judge_half": "b"}}
        else:
            models.ready(case)
            settings = {"previous": "none", "data": {"seeds": str(models.seeds)}}
        started = time.monotonic()
        result = _run(models, case, campaign_seed, policy, executions, Path(place) / "run", settings)
        seconds = time.monotonic() - started
    if result.campaign is None or result.partial:
        raise RuntimeError(f"the run of {case.kind}, seed {case.seed} came to nothing: {result.reasons[0]}")
    return Line(
        kind=case.kind,
        seed=case.seed,
        campaign_seed=campaign_seed,
        executions=executions,
        verdict=str(result.verdict),
        rules={rule.id: _rule(rule) for rule in result.rules},
        metrics=_metrics(result),
        ran=result.campaign.executions,
        model_calls=result.campaign.model_calls,
        seconds=round(seconds, 1),
        reasons=result.reasons[:20],
        code=_code(),
    )


def _earlier(models: Models, broken: Case, policy: str, executions: int) -> Path:
    """The folder of a finished run on a faulty network, kept beside the models."""
    models.ready(broken)
    folder = models.earlier(broken)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        _run(models, broken, 0, policy, executions, made / "run", {"previous": "none", "data": {"seeds": str(models.seeds)}})
        if not folder.exists():
            (made / "run").rename(folder)
        shutil.rmtree(made)
    return folder


def _run(models: Models, case: Case, campaign_seed: int, policy: str, executions: int, out: Path, settings: dict[str, Any]) -> Result:
    return run(
        Settings.model_validate(
            {
                **settings,
                "model": str(models.place(case)),
                "baseline": str(models.place(Case(HEALTHY, CHAMPION))),
                "budget": {"executions": executions},
                "policy": policy,
                "seed": campaign_seed,
                "out": str(out),
                "publish": False,
                "device": "cpu",
                "threads": 1,
            }
        )
    ).result


def _rule(rule: RuleResult) -> list[object]:
    found: list[object] = [str(rule.status), rule.value, rule.lower, rule.upper, rule.slice]
    return found if rule.paired is None else [*found, rule.paired.rise, rule.paired.lower, rule.paired.upper]


def _metrics(result: Result) -> dict[str, float | None]:
    """Values, rises over the baseline, and the worst slice of both, by names such as ``defect_rate/class rise``."""
    found: dict[str, float | None] = {}

    def note(name: str, metric: Metric) -> None:
        found[name] = metric.value
        if metric.paired is not None:
            found[f"{name} rise"] = metric.paired.rise
            found[f"{name} rise lower"] = metric.paired.lower

    for name, metric in result.metrics.items():
        note(name, metric)
        for by, slices in metric.slices.items():
            of_slices: dict[str, list[float]] = {}
            for part in slices.values():
                rise = part.paired
                for suffix, value in (
                    ("", part.value),
                    (" lower", part.lower),
                    (" rise", None if rise is None else rise.rise),
                    (" rise lower", None if rise is None else rise.lower),
                ):
                    if value is not None:
                        of_slices.setdefault(suffix, []).append(value)
            for suffix, values in of_slices.items():
                found[f"{name}/{by}{suffix}"] = max(values)
                found[f"{name}/{by}{suffix} least"] = min(values)
    return found


def _code() -> str:
    """Digest of the gate's own source."""
    folder = Path(gate.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def results_file(folder: Path, name: str, policy: str, executions: int) -> Path:
    """Where the verdicts under a policy, with a budget, by this version of the gate, are collected."""
    named = load_policy(policy).info.name
    return folder / f"power-{name}-{VERSION}-{named}-{_short(policy)}-{version('fuzzgate')}-{executions}.jsonl"


def known(path: Path) -> Iterator[Line]:
    """The verdicts of a results file. A last line without its end, as of a process that was killed, counts for nothing and is cut off."""
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    for line in whole.splitlines():
        told = json.loads(line)
        yield Line(**{**told, "reasons": tuple(told["reasons"])})


def finished(path: Path, wanted: Sequence[_Job]) -> tuple[list[Line], list[_Job]]:
    """(verdicts that are there, what has still to be judged), both in the order wanted."""
    done = {(line.case, line.campaign_seed): line for line in known(path)}
    return [done[job] for job in wanted if job in done], [job for job in wanted if job not in done]


def _append(path: Path, line: Line) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def _judged(options: argparse.Namespace, models: Models, wanted: Sequence[_Job], path: Path, console: Console) -> tuple[list[Line], int]:
    """(all verdicts wanted, how many networks could not be judged)."""
    lines, missing = finished(path, wanted)
    if not missing:
        return lines, 0
    models.ready(Case(HEALTHY, CHAMPION))
    _ = models.seeds, [models.mean(name) for name in ARCHITECTURES]  # before several processes want them
    broken, total = 0, len(missing)
    queue = iter(missing)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        running: dict[Future[Line], _Job] = {}

        def start() -> None:
            for case, campaign_seed in queue:
                running[pool.submit(_in_process, options, case, campaign_seed)] = (case, campaign_seed)
                return

        for _ in range(options.jobs):
            start()
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                case = running.pop(future)[0]
                total -= 1
                start()
                error = future.exception()
                if error is not None:
                    broken += 1
                    console.print(f"{case.kind}, seed {case.seed}: NOT JUDGED: {error}", highlight=False, markup=False)
                    continue
                line = future.result()
                _append(path, line)
                lines.append(line)
                text = f"{case.kind}, seed {case.seed}: {line.verdict} ({line.seconds:.0f} s, {total} to go)"
                console.print(text, highlight=False, markup=False)
    order = {job: number for number, job in enumerate(wanted)}
    return sorted(lines, key=lambda line: order[line.case, line.campaign_seed]), broken


def _in_process(options: argparse.Namespace, case: Case, campaign_seed: int) -> Line:
    return judge(_models(options), case, campaign_seed, options.policy, options.executions)


def _models(options: argparse.Namespace) -> Models:
    chosen_on = range(0, 8, 2) if options.data == "fashion" else CHOSEN_ON
    fixes = f"{_short(options.policy)}-{options.executions}"
    return Models(options.cache, options.data, _data(options.data), chosen_on=chosen_on, fixes=fixes)


def _short(policy: str) -> str:
    return load_policy(policy).info.digest.split(":")[-1][:12]


def _data(name: str) -> Data | None:
    if name == "digits":
        return None
    from benchmarks.power_fashion import fashion

    return fashion()


def _facts(models: Models, lines: Sequence[Line], healthy_seeds: int) -> dict[Case, Facts]:
    """Of the networks judged, the champion, and the healthy ones that the other checks' limits are chosen on (trained where missing)."""
    wanted = {line.case for line in lines} | {Case(HEALTHY, seed) for seed in (CHAMPION, *range(0, healthy_seeds, 2))}
    return {case: models.known(case) or models.ready(case) for case in sorted(wanted, key=lambda case: (case.kind, case.seed))}


def _table(table: Sequence[Row]) -> Table:
    shown = Table("kind", "n", "clean accuracy", "caught by the gate", "inconclusive", *CHECKS, box=None)
    faults = [row for row in table if row.kind != HEALTHY]
    lines = list(faults)
    if len(faults) > 1:
        lines.append(_sum(faults, "all kinds"))
    lines += [replace(row, kind="healthy: blocked") for row in table if row.kind == HEALTHY]
    for row in lines:
        others = [f"{row.others[check]} of {row.n}" for check in CHECKS]
        shown.add_row(row.kind, str(row.n), f"{row.accuracy:.1%}", share(row.failed, row.n), str(row.open), *others)
    return shown


def _sum(parts: Sequence[Row], kind: str) -> Row:
    n = sum(row.n for row in parts)
    return Row(
        kind=kind,
        n=n,
        accuracy=sum(row.accuracy * row.n for row in parts) / n,
        failed=sum(row.failed for row in parts),
        open=sum(row.open for row in parts),
        others={check: sum(row.others[check] for row in parts) for check in CHECKS},
    )


def _show_power(lines: Sequence[Line], facts: dict[Case, Facts], options: argparse.Namespace, console: Console) -> bool:
    table = rows(lines, facts)
    console.print(_table(table))
    console.print(
        f"Intervals: Clopper-Pearson, {CONFIDENCE:.0%}. Policy {options.policy}, {options.executions:,} executions, half: {options.half}; "
        f"{len({line.code for line in lines})} state(s) of the gate's source. The other checks' limits block at most {FALSE_BLOCKS:.0%} of "
        f"{len(healthy_of(facts))} healthy networks of the tuning half.",
        highlight=False,
    )
    for line in lines:
        if (line.verdict != "pass") if line.kind == HEALTHY else (line.verdict != "fail"):
            console.print(f"  {why(line)}", highlight=False, markup=False)
    faults, sound = ([row for row in table if (row.kind == HEALTHY) is healthy] for healthy in (False, True))
    caught = sum(row.failed for row in faults) >= TARGET_CAUGHT * sum(row.n for row in faults)
    spared = sum(row.failed for row in sound) <= TARGET_BLOCKED * sum(row.n for row in sound)
    return caught and spared


def _show_metrics(lines: Sequence[Line], console: Console) -> None:
    for name, by_kind in separation(lines).items():
        console.print(f"{name}", highlight=False, markup=False)
        for kind, spread in by_kind.items():
            console.print(f"    {kind:26s} {spread.n:3d}  {spread.low:8.4f} {spread.middle:8.4f} {spread.high:8.4f}", highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 where a target is missed or a network could not be judged."""
    every = [HEALTHY, *KINDS, MEMORISED]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.power", description="How many faulty and healthy networks the gate blocks.")
    parser.add_argument("--policy", default="release", help="a shipped name or a file; used as it is")
    parser.add_argument("--half", choices=["tune", "test", "all"], default="test", help="of the training seeds; figures come from test")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=every, help=", ".join(every))
    parser.add_argument("--healthy", type=int, default=HEALTHY_SEEDS, help="training seeds of healthy networks")
    parser.add_argument("--seeds", type=int, default=FAULTY_SEEDS, help="training seeds of each kind of fault")
    parser.add_argument("--executions", type=int, default=EXECUTIONS)
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, each on one thread")
    parser.add_argument("--data", choices=["digits", "fashion"], default="digits")
    parser.add_argument("--metrics", action="store_true", help="how every metric is spread, of the tuning half")
    parser.add_argument("--repeat", type=int, metavar="N", help="judge ten networks with N campaign seeds each instead")
    parser.add_argument("--train", action="store_true", help="make the networks and judge nothing")
    parser.add_argument("--cache", type=Path, default=Path(".bench-cache"), help="for networks and results")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.kinds if name not in every]
    if unknown:
        parser.error(f"no kind {unknown[0]!r}; there are {', '.join(every)}")
    console = Console(width=200)
    models = _models(options)
    half = "tune" if options.metrics else options.half
    chosen = list(cases(options.healthy, options.seeds, half, tuple(options.kinds)))
    if options.train:
        return _train(models, chosen, console)
    path = results_file(options.cache, options.data, options.policy, options.executions)
    if options.repeat is not None:
        return _repeated(options, models, chosen, path, console)
    lines, broken = _judged(options, models, [(case, 0) for case in chosen], path, console)
    if options.metrics:
        _show_metrics(lines, console)
        return 1 if broken else 0
    reached = _show_power(lines, _facts(models, lines, options.healthy), options, console)
    return 0 if reached and not broken else 1


def _train(models: Models, chosen: Sequence[Case], console: Console) -> int:
    torch.set_num_threads(1)
    failed = 0
    for case in chosen:
        if case.kind == MEMORISED:
            continue  # made from a run's record
        try:
            facts = models.ready(case)
        except RuntimeError as error:
            failed += 1
            console.print(f"NOT MADE: {error}", highlight=False, markup=False)
            continue
        console.print(f"{case.kind}, seed {case.seed}: {facts.practice.accuracy:.2%}, attempt {facts.attempt}", highlight=False)
    return 1 if failed else 0


def _repeated(options: argparse.Namespace, models: Models, chosen: Sequence[Case], path: Path, console: Console) -> int:
    """Half of the networks healthy, half of as many kinds."""
    sound = [case for case in chosen if case.kind == HEALTHY][: REPEATED // 2]
    faults = [case for case in chosen if case.kind != HEALTHY]
    spread = faults[:: max(1, len(faults) // (REPEATED - len(sound)))][: REPEATED - len(sound)]
    wanted = [(case, campaign_seed) for campaign_seed in range(options.repeat) for case in (*sound, *spread)]
    lines, broken = _judged(options, models, wanted, path, console)
    flipped, undecided, total = differing(lines)
    for case in (*sound, *spread):
        verdicts = [line.verdict for line in lines if line.case == case]
        told = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))
        console.print(f"{case.kind}, seed {case.seed}: {told}", highlight=False)
    console.print(f"Between pass and fail: {share(flipped, total)} differ from the majority; {undecided} inconclusive.", highlight=False)
    return 0 if flipped <= TARGET_DIFFERING * total and not broken else 1


if __name__ == "__main__":
    sys.exit(main())
