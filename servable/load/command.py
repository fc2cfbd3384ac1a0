"""`servable load ENV|URL`: measure how much load it takes, step by step.

What measures is imported when a test begins: the help of the command does not wait for it.
"""

from typing import Any

import click

from servable.console.signals import enable_ctrl_c
from servable.load.options import OPTIONS, LoadOptions, checked, with_options
from servable.project.completion import complete_environments


@click.command(context_settings={"show_default": True})
@click.argument("what", metavar="[ENV|URL]", required=False, shell_complete=complete_environments)
@with_options(OPTIONS)
def load(what: str | None, folder: str, **values: Any) -> int:
    """Measure how much load ENV takes: users are added until throughput no longer grows.

    Ctrl-C ends the test and keeps the complete steps.
    """
    options = LoadOptions(**values)
    if options.joined:
        if what:
            raise click.UsageError(
                "--join takes ENV and all options but --locustfile from the other computer"
            )
        from servable.load.load_generator import join

        join(*options.joined, options.locustfile)
        return 0
    checked(what, options)
    assert what is not None  # checked
    enable_ctrl_c()
    from servable.load.run import run_load_test

    return run_load_test(what, folder, options)
