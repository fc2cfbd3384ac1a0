"""`servable load ENV|URL`: measure how much load it sustains, step by step.

The measuring code is imported only when a test begins, so that `--help` stays fast.
"""

from typing import Any

import click

from servable.console.signals import enable_ctrl_c
from servable.load.options import OPTIONS, LoadOptions, check_combinations
from servable.measured.options import add_options
from servable.project.completion import complete_environments


@click.command(context_settings={"show_default": True})
@click.argument("what", metavar="[ENV|URL]", required=False, shell_complete=complete_environments)
@add_options(OPTIONS)
def load(what: str | None, folder: str, **values: Any) -> int:
    """Measure how much load ENV sustains: users are added until throughput no longer grows.

    Ctrl-C ends the test and keeps the complete steps.
    """
    options = LoadOptions(**values)
    if options.joined and what:
        raise click.UsageError(
            "--join works only with --locustfile; the other computer sends ENV and all other options"
        )
    if options.joined:
        from servable.load.processes import join_load_test

        join_load_test(*options.joined, options.locustfile)
        return 0
    if not what:
        raise click.UsageError("pass an environment or a URL, such as `servable load prod`")
    check_combinations(what, options)
    enable_ctrl_c()
    from servable.load.run import run_load_test

    return run_load_test(what, folder, options)
