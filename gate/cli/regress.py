"""``gate regress``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from gate.regressing import Regressed

__all__ = ["command"]

_LONGEST_LINE = 4000  # characters
_HELP = (
    "Replay the defects of the run in folder RUN on another model, with fresh mutants of every root cause. "
    "Exit 0 when nothing is left of them, 1 while a root cause is still there or only memorised."
)


@click.command(name="regress", help=_HELP)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--model", required=True, help="The new model: an MLflow URI or a local model folder.")
@click.option(
    "--exported",
    type=click.Choice(["a", "b", "all"]),
    default="a",
    show_default=True,
    help="The half of the seed inputs whose defects were exported for training; fresh mutants start from others.",
)
@click.option("--seeds", type=click.Path(path_type=Path), help="Clean labelled samples for fresh mutants, as in `gate run`.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:0.")
@click.option("--tracking-uri", help="MLflow tracking server, database or folder; the run's own where absent.")
@click.option("--batch-size", type=click.IntRange(1, 65_536), default=128, show_default=True, help="Samples in one forward pass.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the JSON into this new file.")
def command(
    run: Path,
    model: str,
    exported: Literal["a", "b", "all"],
    seeds: Path | None,
    device: str,
    tracking_uri: str | None,
    batch_size: int,
    as_json: bool,
    out: Path | None,
) -> int:
    """Prints what became of each root cause."""
    import json

    from gate.errors import OutputError
    from gate.regressing import regress
    from gate.report.text import visible

    if out is not None and out.exists():
        raise OutputError("The file exists already.", where=str(out), hint="Give a new file with --out.")
    found = regress(run, model, exported=exported, seeds=seeds, device=device, tracking_uri=tracking_uri, batch_size=batch_size)
    text = json.dumps(found.to_json(), indent=2, ensure_ascii=True, allow_nan=False)
    if out is not None:
        try:
            out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(
                f"The file can't be written: {error.strerror or error}.", where=str(out), hint="Give another file with --out."
            ) from error
    for line in [text] if as_json else [visible(line, _LONGEST_LINE, isolate=False) for line in _lines(found)]:
        click.echo(line)
    return 0 if found.fixed else 1


def _lines(found: Regressed) -> list[str]:
    from gate.report.text import NAME, visible

    lines = [f"model      {found.model}"]
    if found.remark:
        lines.append(f"registry   {found.remark}")
    if found.rate is None or found.interval is None:
        return [*lines, "defects    the run has none, so that there is nothing to replay"]
    low, high = found.interval
    ways = ", ".join(f"{way} {count}" for way, count in found.ways.items())
    lines.append(f"recurring  {found.recurring:,} of {found.defects:,} defects: {found.rate:.1%} (95 %: {low:.1%} to {high:.1%}); {ways}")
    lines.append(f"fresh      mutants start from {found.seed_inputs:,} inputs that the model gets right: {_source(found)}")
    for cause in found.causes:
        said = [
            f"{name} {failed} of {of} fail" for name, (failed, of) in (("exported", cause.exported), ("held back", cause.held_back)) if of
        ]
        if cause.fresh_interval is None:
            said.append("no fresh mutants (none can be made of it, or no seed input of its class is left; --seeds gives more)")
        else:
            low, high = cause.fresh_interval
            said.append(f"fresh mutants {cause.fresh[0]} of {cause.fresh[1]} fail (95 %: {low:.0%} to {high:.0%})")
        lines.append(f"{cause.verdict:<12}{visible(cause.title, 2 * NAME, isolate=False)} [{cause.id}]: {', '.join(said)}")
    counts = Counter(cause.verdict for cause in found.causes)
    unknown = counts["unknown"]
    if not found.fixed:
        words = ", ".join(f"{counts[word]:,} {word}" for word in ("fixed", "memorised", "still there", "unknown") if counts[word])
        lines.append(f"not fixed  of {len(found.causes):,} root causes: {words}")
        if counts["memorised"]:
            lines.append("           memorised: the files are read rightly now, and new pictures with the same change are not")
    elif unknown:
        lines.append(f"no root cause is seen any more; of {unknown} of {len(found.causes)} it is unknown whether they are fixed")
    else:
        lines.append("every root cause is fixed")
    return lines


def _source(found: Regressed) -> str:
    """What fresh mutants were made of."""
    source = "of the seeds given" if found.fresh_from == "seeds" else "of the seed inputs of the run's defects"
    if found.exported != "all":
        return f"{source}, half {'b' if found.exported == 'a' else 'a'}"
    return f"{source}, those that no defect comes from" if found.fresh_from == "seeds" else f"{source}, none, as all may have been exported"
