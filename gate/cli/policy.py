"""``gate policy``: check policy files, show one, list the shipped ones, preview a domain, print the schema."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import click

__all__ = ["command"]

_LONGEST_LINE = 4_000  # characters


@click.group(name="policy", help="Check, show, list, preview and calibrate policies.")
def command() -> None:
    """The group; see the commands."""


_TODAY = click.option(
    "--today", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="Waivers are in force or not on this day, as 2027-03-31; UTC today."
)


@command.command(
    help="Check policy files (or shipped names): exit 0 when all are sound, 2 otherwise. Warnings do not count but by --strict."
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="What is printed.")
@_TODAY
def check(files: tuple[str, ...], strict: bool, form: str, today: datetime.datetime | None) -> None:
    """Loads every file, says what is wrong with what its rules would do, and raises the error of the one that does not load."""
    from gate.errors import PolicyError
    from gate.policy.checked import as_json, checked, in_words
    from gate.report.text import visible

    day = _day(today)
    reports = [checked(file, today=day, strict=strict) for file in files]
    unsound = sum(not report.sound for report in reports)
    if form == "json":
        click.echo(as_json(reports), nl=False)
        if unsound:
            click.get_current_context().exit(2)
        return
    if len(reports) == 1 and reports[0].error is not None:
        raise reports[0].error
    for report in reports:
        for line in in_words(report):
            click.echo(visible(line, _LONGEST_LINE, isolate=False), err=not report.sound)
    if unsound:
        raise PolicyError(f"{unsound} of {len(files)} policies are not sound.", hint="See the messages above.")


@command.command(help="Show a policy as it is in force after extends: in words, as one YAML file that needs no other, or as JSON.")
@click.argument("name", metavar="NAME")
@click.option("--format", "form", type=click.Choice(["text", "yaml", "json"]), default="text", show_default=True, help="What is printed.")
@_TODAY
def show(name: str, form: str, today: datetime.datetime | None) -> None:
    """Prints a shipped policy or a file."""
    from gate.policy import describe, load_policy
    from gate.policy.merged import as_json, as_yaml
    from gate.report.text import visible

    loaded, day = load_policy(name), _day(today)
    match form:
        case "yaml":
            text = as_yaml(loaded)
        case "json":
            text = as_json(loaded, today=day)
        case _:
            text = "".join(f"{visible(line, _LONGEST_LINE, isolate=False)}\n" for line in describe(loaded, today=day).splitlines())
    click.echo(text, nl=False)


@command.command(help="Print the JSON Schema of policy files, for editors that complete and check while you write.")
def schema() -> None:
    """Prints what docs/schemas/policy-1.schema.json holds."""
    from gate.policy.schema_file import text

    click.echo(text(), nl=False)


@command.command(
    help="Propose limits from models known to be good: run the gate on each of them (or take finished runs), and say what limits they meet "
    "and how often a policy made so blocks a good model. Rules about the evidence are never changed."
)
@click.option("--model", "models", multiple=True, help="A model known to be good, as for `gate run`; give it several times.")
@click.option("--run", "runs", multiple=True, type=click.Path(path_type=Path), help="A finished run of one, in place of --model.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings file; gate.yaml of this folder where there is one.")
@click.option("--policy", help="Whose limits: a shipped name or a file; as in the settings where absent.")
@click.option("--baseline", help="The version in production, for rules that compare with it.")
@click.option("--seeds", help="As for `gate run`.")
@click.option("--seed", type=int, help="Campaign seed of every run.")
@click.option("--executions", type=click.IntRange(min=1), help="Mutants of every run; the policy's own budget where absent.")
@click.option("--device", help="auto, cpu, cuda or cuda:0.")
@click.option("--tracking-uri", help="MLflow tracking server, database or folder; MLflow's default where absent.")
@click.option(
    "--false-block",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Rate of good models that are not let through, at most, over all rules together.",
)
@click.option(
    "--runs-folder",
    type=click.Path(path_type=Path),
    default=Path("gate-calibration"),
    show_default=True,
    help="Where the runs are kept; finished ones are taken as they are.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The policy to write: it extends the one given, and says where each limit comes from."
)
@_TODAY
def calibrate(
    models: tuple[str, ...],
    runs: tuple[Path, ...],
    config: Path | None,
    false_block: float,
    runs_folder: Path,
    out: Path | None,
    today: datetime.datetime | None,
    **options: Any,
) -> None:
    """Prints the limits, and writes the policy where it is asked for; nothing is published."""
    from gate.calibrating import calibrate as limits_from
    from gate.calibrating import in_words, read_runs, run_models, write_policy
    from gate.config import load
    from gate.errors import UsageError
    from gate.policy import load_policy
    from gate.report.text import visible
    from gate.terminal.progress import interruptible

    if bool(models) == bool(runs):
        raise UsageError("Give either models or finished runs.", where="--model, --run", hint="Give --model, or --run, several times.")
    keys = {"seeds": "data.seeds", "executions": "budget.executions"}
    settings = load(config, command_line={keys.get(name, name): value for name, value in options.items()}).settings
    policy = load_policy(settings.policy)

    def say(line: str, err: bool = False) -> None:
        click.echo(visible(line, _LONGEST_LINE, isolate=False), err=err)

    if runs:
        good = read_runs(runs)
    else:
        with interruptible() as stop:
            good = run_models(settings, models, runs_folder, say=lambda line: say(line, err=True), stop=stop)
    found = limits_from(policy, good, false_block=false_block, today=_day(today))
    for line in in_words(found):
        say(line)
    if out is not None:
        for finding in write_policy(found, out, today=_day(today)):
            say(f"{finding.where}: {finding.level}: {finding.text}")
        say(f"policy:  {out}")


def _day(given: datetime.datetime | None) -> datetime.date:
    return (given or datetime.datetime.now(tz=datetime.UTC)).date()


@command.command(help="Write a contact sheet: every operator at a quarter, half, three quarters and all of its limit, on your own seeds.")
@click.option("--policy", help="A shipped name or a file; as in the settings where absent.")
@click.option("--seeds", help="Clean samples: a folder per class, an .npz, or an MLflow artifact URI; as in the settings where absent.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings file; gate.yaml of this folder where there is one.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("preview.html"), show_default=True, help="The page to write.")
@click.option("--operators", default="", help="Only these, joined by commas.")
@click.option("--samples", type=click.IntRange(1, 16), default=2, show_default=True, help="Seed inputs to show.")
@click.option("--seed", type=int, help="Decides which samples are shown, and the direction and place of changes.")
def preview(policy: str | None, seeds: str | None, config: Path | None, out: Path, operators: str, samples: int, seed: int | None) -> None:
    """Loads settings, policy and seed inputs, and writes the page; no model is needed."""
    import tempfile

    from gate.config import load
    from gate.domains.image.dataset import load_images
    from gate.errors import ConfigError
    from gate.policy import load_policy
    from gate.policy.preview import preview as make
    from gate.registry.connection import redacted
    from gate.report.atomic import make_folder, write_text
    from gate.report.contact_sheet import contact_sheet
    from gate.report.text import visible

    settings = load(config, command_line={"policy": policy, "data.seeds": seeds, "seed": seed}).settings
    source = settings.data.seeds
    if source is None:
        raise ConfigError("No seeds are given.", where="data.seeds", hint="Give --seeds or set data.seeds in gate.yaml.")
    loaded = load_policy(settings.policy)
    with tempfile.TemporaryDirectory(prefix="gate-") as private:
        place = Path(source)
        if ":" in source and not place.exists():
            from gate.registry.download import download_artifact

            place = download_artifact(source, Path(private) / "seeds", tracking_uri=settings.tracking_uri)
        names = settings.classes if isinstance(settings.classes, tuple) else None
        images = load_images(place, settings=settings.input, classes=names, on_bad_file=settings.data.on_bad_file, role="seeds")
    wanted = [name.strip() for name in operators.split(",") if name.strip()]
    sheet = make(loaded.policy.domain, images, operators=wanted, samples=samples, seed=settings.seed)
    shown = redacted(source) if "://" in source else source
    make_folder(out.parent)
    write_text(out, contact_sheet(sheet, policy=loaded.policy.name, source=shown))
    click.echo(f"{visible(str(out), isolate=False)}: {sheet.operators} operators on {len(sheet.originals)} seed inputs")


@command.command(name="list", help="List the shipped policies and for whom each is.")
def list_() -> None:
    """Prints one line for each."""
    from gate.policy import load_policy, shipped_policies

    for name in shipped_policies():
        purpose = load_policy(name).policy.description.split(". ")[0].rstrip(".")
        click.echo(f"{name:<10} {purpose}.")
