"""``gate corpus``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

__all__ = ["command"]


@click.group(name="corpus", help="Show or minimize a run's corpus, or export its defects as a training set.")
def command() -> None:
    """The group; see the commands."""


@command.command(name="export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new or empty folder.")
@click.option("--half", type=click.Choice(["a", "b", "all"]), default="a", show_default=True, help="Which half of the seed inputs.")
@click.option("--for-training", is_flag=True, help="Also write an augmentation pipeline that covers the failing ranges.")
def export(run: Path, out: Path, half: Literal["a", "b", "all"], for_training: bool) -> None:
    """Write the defects of one half of the seed inputs as a training set.

    The other half stays unseen, so that `gate regress` and the next gate run can tell a fix from memorised examples.
    """
    from gate.afterwards import reading_of
    from gate.corpus.export import Training
    from gate.corpus.export import export as write
    from gate.domains.image.picture import load
    from gate.errors import DataError
    from gate.report.text import visible
    from gate.result import Result

    result = Result.load(run)
    training = None
    if for_training:
        reading = reading_of(run)
        if reading.domain is None:
            raise DataError("The run does not say by which limits its mutants were made.", where=str(run), hint="Run the gate again.")
        training = Training(reading.domain, reading.value_range)
    written = write(result, run, out, half=half, load=load, training=training)
    files = "train.npz, pictures/, defects.csv"
    if training is not None:
        files += ", augment.py, augment.json, README.md" if written.augmentation else ", README.md: no operator has an equal to train with"
    click.echo(
        f"{written.exported} defects written to {visible(written.folder)} ({files}); "
        f"{written.held_out} of the other half held out, {written.kept_back} kept back (judging arm, or nothing that training would change)"
    )


@command.command(name="minimize")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The new corpus file.")
@click.option("--time", "time_", default="30s", show_default=True, help="Time for it: 30s, 5m. More of it may find fewer entries.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:0.")
@click.option("--batch-size", type=click.IntRange(1, 65_536), default=128, show_default=True, help="Samples in one forward pass.")
@click.option("--tracking-uri", help="MLflow tracking server, database or folder; the run's own where absent.")
def minimize(run: Path, out: Path, time_: str, device: str, batch_size: int, tracking_uri: str | None) -> None:
    """Write as few entries of the run's corpus as cover the same, for `gate run --corpus`."""
    from gate.config import duration
    from gate.minimising import minimise
    from gate.report.text import visible

    try:
        seconds = duration(time_)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--time") from error
    done = minimise(run, out, seconds=seconds, device=device, tracking_uri=tracking_uri, batch_size=batch_size)
    if done.after == done.least:
        bound = "there is no smaller choice"
    else:
        bound = f"none has fewer than {done.least:,}" + ("" if done.ended else "; the time was up, so more of it may find fewer")
    click.echo(f"entries    {done.before:,} before, {done.after:,} after: {bound}")
    counted = ", ".join(f"{name} {count:,}" for name, count in done.items.items())
    click.echo(f"items      {counted} beyond the seed inputs, before and after (asked again of the file that was written)")
    if done.left_out:
        click.echo(f"left out   {', '.join(done.left_out)}: a statistic has no items that entries could share")
    click.echo(f"bytes      {done.bytes_before:,} before, {done.bytes_after:,} after")
    click.echo(f"work       {done.model_calls:,} model calls, {done.rounds:,} rounds of local search")
    click.echo(f"written    {visible(done.out, isolate=False)}")


@command.command(name="show")
@click.argument("run", type=click.Path(path_type=Path))
def show(run: Path) -> None:
    """Show what the corpus of a run, or a corpus file, holds."""
    from gate.corpus.corpus_file import read_corpus
    from gate.corpus.locate import corpus_of
    from gate.corpus.summary import summary_of
    from gate.report.text import visible

    path = corpus_of(str(run))
    corpus = read_corpus(path)
    said = summary_of(corpus)
    shape = " x ".join(map(str, corpus.head.shape))
    click.echo(f"file       {visible(path, isolate=False)}, {corpus.size:,} bytes")
    if corpus.cut:
        click.echo(f"torn       its last {corpus.cut:,} bytes are not whole and are left out: the run that wrote it was stopped")
    click.echo(f"inputs     {shape} of {corpus.head.dtype}")
    replaced = f", and {said.replaced:,} that simpler ones stand for" if said.replaced else ""
    click.echo(f"entries    {said.entries:,} from {said.seed_inputs:,} seed inputs{replaced}")
    if said.quality is not None:
        click.echo(f"families   {', '.join(f'{name} {count:,}' for name, count in said.families.items())}")
        click.echo(f"steps      {', '.join(f'{steps}: {count:,}' for steps, count in said.chains.items())}")
        click.echo("quality    {:.2f} lowest, {:.2f} median, {:.2f} highest".format(*said.quality))
