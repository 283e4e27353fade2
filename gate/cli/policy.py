"""``gate policy``: check policy files, show one in words, list the shipped ones."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.group(name="policy", help="Check, show and list policies.")
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


@command.command(name="list", help="List the shipped policies and for whom each is.")
def list_() -> None:
    """Prints one line for each."""
    from gate.policy import load_policy, shipped_policies

    for name in shipped_policies():
        purpose = load_policy(name).policy.description.split(". ")[0].rstrip(".")
        click.echo(f"{name:<10} {purpose}.")
