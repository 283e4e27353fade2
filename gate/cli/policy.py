"""``gate policy``: check policy files, show one in words, list the shipped ones."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.group(name="policy", help="Check, show, list and preview policies.")
def command() -> None:
    """The group; see the commands."""


@command.command(help="Check policy files (or shipped names): exit 0 when all are sound, 2 otherwise.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def check(files: tuple[str, ...]) -> None:
    """Loads every file and says of each what it holds or what is wrong; the error at the end is the first one, or sums them up."""
    import datetime

    from gate.errors import PolicyError
    from gate.policy import load_policy

    today = datetime.datetime.now(tz=datetime.UTC).date()
    errors: list[PolicyError] = []
    for file in files:
        try:
            loaded = load_policy(file)
        except PolicyError as error:
            errors.append(error)
            if len(files) > 1:
                click.echo(f"{file}: {error}", err=True)
            continue
        policy = loaded.policy
        click.echo(f"{file}: ok, {len(policy.rules)} rules, {len(policy.waivers)} waivers, {loaded.info.digest}")
        for waiver in policy.waivers:
            if waiver.expires < today:
                click.echo(f"{file}: the waiver of {waiver.rule} by {waiver.owner} expired on {waiver.expires}; the rule counts again")
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise PolicyError(f"{len(errors)} of {len(files)} policies have errors.", hint="See the messages above.")


@command.command(help="Show a policy in words, as it is in force after extends.")
@click.argument("name", metavar="NAME")
def show(name: str) -> None:
    """Prints the description of a shipped policy or a file."""
    import datetime

    from gate.policy import describe, load_policy

    click.echo(describe(load_policy(name), today=datetime.datetime.now(tz=datetime.UTC).date()), nl=False)


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
