"""`servable plan ENV --adopt NAME`: compare the file with a live endpoint."""

import json
from dataclasses import asdict

import click

from infra.parameters.loading import ValidFile
from servable.init.adoption.live_picture import LivePicture, live_picture
from servable.init.adoption.live_template import live_template, same_in_effect
from servable.plan.synthesis import endpoint_template
from servable.plan.template_changes import TemplateChange, changes
from servable.project.account import account_of


def adoption_plan(loaded: ValidFile, name: str, *, local: bool, as_json: bool) -> int:
    """Show what the file changes against the live endpoint `name`.

    Returns 0 if nothing changes in effect, else 1. Raises `PackagingError`.
    """
    account = account_of(loaded.environment, local=local)
    account.meant()
    picture = live_picture(account, "endpoint", name, archives=False)
    after = endpoint_template(loaded)
    effects = [
        (change, same_in_effect(change.what, change.before, change.after, picture))
        for change in changes(live_template(picture, after), after)
    ]
    different = [change for change, why in effects if why is None and not _is_added(change)]
    if as_json:
        rows = [asdict(change) | {"same_in_effect": why} for change, why in effects]
        output = {"environment": loaded.name, "adopts": name, "changes": rows,
                  "not_read": dict(picture.unread)}  # fmt: skip
        click.echo(json.dumps(output, indent=2))
    else:
        _show(loaded, name, picture, effects)
    return int(bool(different or picture.unread))


def _is_added(change: TemplateChange) -> bool:
    """Whether the change only adds resources of a type, as alarms and a dashboard."""
    return change.before is None and change.after is None and change.what.endswith(" new") and (
        "," not in change.what)  # fmt: skip


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
