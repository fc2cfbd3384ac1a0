"""What `servable load` was told to ask, up and ready."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from infra.parameters.loading import Loaded
from servable.aws_account import account_of
from servable.load.copy import Spending, temporary
from servable.load.load import Reached, at_url, deployed, local
from servable.project import refused


@contextmanager
def reached_by(
    what: str, loaded: Loaded | None, names: list[str], output: Path, told: dict[str, Any]
) -> Iterator[Reached]:
    """Raises what the target has to say, and click.UsageError."""
    if loaded is None:
        try:
            yield at_url(what, names)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    elif told["target"] == "local":
        if problems := refused(loaded):
            raise click.ClickException("\n".join(problems))
        with local(loaded, names, variant=told["variant"], log=output / "endpoint.log") as reached:
            yield reached
    else:
        environment = loaded.environment
        assert environment is not None  # looked at when it was loaded
        account = account_of(environment, local=told["local"], endpoint_url=told["endpoint_url"])
        account.meant()
        where: dict[str, Any] = {
            "name": loaded.name,
            "variant": told["variant"],
            "account": account,
        }
        if told["target"] == "deployed":
            yield deployed(environment, names, **where, whole=told["gate"])
            return
        spending = Spending(
            budget_usd=told["dollars"],
            instance_type=told["instance_type"],
            usd_per_hour=told["usd_per_hour"],
            told=lambda line: click.echo(line, err=True),
        )
        with temporary(environment, names, **where, spending=spending) as reached:
            yield reached
