"""`servable plan ENV --adopt NAME`: changes against a live endpoint, and ways to take it over."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import ValidFile
from model_packaging.beside import write_beside
from model_packaging.places import MADE
from servable.adoption.live_picture import LivePicture, live_picture
from servable.adoption.live_template import live_template, same_in_effect
from servable.adoption.ways import (
    BESIDE,
    DELETE,
    IMPORT,
    NewOwner,
    TakeOver,
    import_files,
    take_over,
)
from servable.aws_account import account_of
from servable.plan.synthesis import endpoint_template, stack_name
from servable.plan.template_changes import TemplateChange, changes

_WAYS = {
    BESIDE: "a new endpoint beside it, then callers switch",
    IMPORT: "CloudFormation imports it",
    DELETE: "delete it and make it again; its data stays",
}


def adoption_plan(
    loaded: ValidFile, name: str, *, way: str | None, local: bool, as_json: bool
) -> int:
    """Show what the file changes against the live endpoint `name`; with `way`, how to take it over.

    Returns 0 if nothing changes in effect, else 1. Raises `PackagingError`.
    """
    account = account_of(loaded.environment, local=local)
    account.meant()
    picture = live_picture(account, "endpoint", name, archives=False)
    after = endpoint_template(loaded)
    before = live_template(picture, after)
    effects = [
        (change, same_in_effect(change.what, change.before, change.after, picture))
        for change in changes(before, after)
    ]
    taken = None
    if way is not None:
        folder = Path(MADE) / "adopt" / loaded.name
        owner = NewOwner(
            environment=loaded.name,
            endpoint_name=loaded.environment.endpoint.name,
            stack=stack_name(loaded),
            options=" --local" if local else "",
            files=folder.as_posix(),
        )
        try:
            taken = take_over(way, picture, owner)
        except ValueError as wrong:
            raise click.UsageError(f"{loaded.file}: {wrong}") from None
        if way == IMPORT:
            _write_import(loaded.root / folder, picture, before, after)
    different = [change for change, why in effects if why is None and not _is_added(change)]
    if as_json:
        rows = [asdict(change) | {"same_in_effect": why} for change, why in effects]
        output: dict[str, Any] = {"environment": loaded.name, "adopts": name, "changes": rows,
                                  "not_read": dict(picture.unread)}  # fmt: skip
        click.echo(json.dumps(output | {"way": None if taken is None else asdict(taken)}, indent=2))
    else:
        _show(loaded, name, picture, effects)
        _show_ways(loaded, name, taken, local)
    return int(bool(different or picture.unread))


def _is_added(change: TemplateChange) -> bool:
    """Whether the change only adds resources of a type, as alarms and a dashboard."""
    return change.before is None and change.after is None and change.what.endswith(" new") and (
        "," not in change.what)  # fmt: skip


def _write_import(folder: Path, picture: LivePicture, before: Any, after: Any) -> None:
    template, resources = import_files(picture, before, after)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("template", template), ("resources", resources)):
        write_beside(folder / f"{name}.json", json.dumps(content, indent=2).encode())


def _show(
    loaded: ValidFile,
    name: str,
    picture: LivePicture,
    effects: list[tuple[TemplateChange, str | None]],
) -> None:
    groups: tuple[tuple[str, list[str]], ...] = (
        ("changes", [str(c) for c, why in effects if why is None and not _is_added(c)]),
        ("adds", [str(c) for c, why in effects if why is None and _is_added(c)]),
        ("alike in effect", [f"{c}: {why}" for c, why in effects if why is not None]),
        ("could not be read", [f"{what}: {why}" for what, why in picture.unread.items()]),
    )
    changed = len(groups[0][1])
    words = f"{changed} changes" if changed != 1 else "1 change"
    click.echo(
        f"{loaded.name}, against the live endpoint {name}: {words if changed else 'alike in effect'}"
    )
    for heading, rows in groups:
        if rows:
            click.echo(f"{heading}:")
        for row in rows:
            click.echo(f"  {row}")


def _show_ways(loaded: ValidFile, name: str, taken: TakeOver | None, local: bool) -> None:
    if taken is None:
        click.echo("\nto take it over:")
        for way, what in _WAYS.items():
            option = " --local" if local else ""
            click.echo(
                f"  servable plan {loaded.name} --adopt {name}{option} --way {way}  # {what}"
            )
        return
    click.echo(f"\n{_WAYS[taken.way]}")
    for key in ("downtime", "cost", "rollback"):
        click.echo(f"  {key}: {getattr(taken, key)}")
    for number, step in enumerate(taken.steps, start=1):
        click.echo(f"{number}. {step.why}{':' if step.command else ''}")
        for command in step.command.split(" && ") if step.command else ():
            click.echo(f"    {command}")
