"""The command ``gate``: one file per command, loaded only when it is asked for, so that ``gate --help`` is there at once."""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Any

import click

from gate import __version__
from gate.errors import GateError

__all__ = ["cli", "main"]

_LONGEST_LINE = 4000  # characters

# name -> (module of gate.cli, one line for --help); the modules import what they need when they run.
_COMMANDS = {
    "run": ("run", "Run the gate on a candidate: fuzz it, judge it, report."),
    "demo": ("demo", "See the gate block a bad model and release its fix, in three minutes."),
    "evaluate": ("evaluate", "Judge finished runs again under another policy, without fuzzing."),
    "report": ("report", "Render a finished run's reports again."),
    "diff": ("diff", "Set two finished runs side by side: root causes, rules, metrics, defects."),
    "replay": ("replay", "Show one defect of a run again, on its model or another."),
    "regress": ("regress", "Replay a run's defects on another model: fixed, memorised, or still there."),
    "layers": ("layers", "List a model's layers: what coverage can watch, what it does watch, and known traps."),
    "doctor": ("doctor", "Say why the coverage of a finished run does not rise."),
    "compare-strategies": ("compare_strategies", "Compare ways to search on your own model and seeds."),
    "corpus": ("corpus", "Show or minimize a run's corpus, or export its defects."),
    "policy": ("policy", "Check, show, list, preview and calibrate policies."),
}


class _Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"gate.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in _COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from gate.strict_yaml import nearest

            close = nearest(args[0], _COMMANDS) if args else None
            if close:
                raise click.UsageError(f"{error.message} Did you mean {close!r}?", ctx) from error
            raise


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gate")
def cli() -> None:
    """The release gate for neural networks.

    Exit codes: 0 pass, 1 fail, 2 usage, settings, data or policy error, 3 could not evaluate, 4 inconclusive.
    """


# What the machine does to a process at any moment, and no bug.
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a command; a GateError becomes a message and its exit code, anything else exit 3."""
    try:
        result: Any = cli.main(args=arguments, standalone_mode=False)
    except GateError as error:
        from gate.report.text import visible

        # Parts of it may be the words of a model or a server; nothing of them may act on the terminal or on a CI system that reads along.
        shown = [visible(line, _LONGEST_LINE, isolate=False) for line in error.lines]
        click.echo("gate: error: " + "\n".join(shown), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("gate: interrupted; what was found so far is in the output folder.", err=True)
        sys.exit(4)
    except BrokenPipeError:
        sys.exit(3)
    except Exception as error:
        import traceback

        if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
            from gate.report.text import visible

            where = visible(str(error.filename or "a file of the run"), _LONGEST_LINE, isolate=False)
            click.echo(f"gate: error: A file can't be written or read: {error.strerror}.\n  where: {where}", err=True)
            click.echo("  what to do: Make room on the disk, check whose the folder is, and run the command again.", err=True)
            sys.exit(3)
        traceback.print_exc()
        click.echo("gate: this is a bug in the gate, not in your model; the lines above say where.", err=True)
        sys.exit(3)
    sys.exit(result if isinstance(result, int) else 0)
