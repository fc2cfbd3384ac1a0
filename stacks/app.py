"""The CDK app of a project: every file in environments/ is a stage, deployed with `cdk deploy 'NAME/*'`."""

import gc
import os
import signal
import sys
from pathlib import Path


def synthesise(root: Path) -> None:
    """Writes the assembly of the project in `root`, where the CDK CLI asks for it.

    The CLI's context says which folder of files (`environments`), which keys for this run, and
    whether roles of a pipeline and audits are wanted. Ends the process with a sentence where
    that cannot be done.
    """
    # Ctrl-C ends it without a trace of Python's: the next synthesis writes everything anew.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # A process of seconds: looking for cycles among what was only just read is a twentieth of its time.
    gc.disable()
    try:
        import aws_cdk as cdk
    except ModuleNotFoundError as missing:
        sys.exit(
            f"{missing}: run `make install` in a checkout, `pip install 'servable[synth]'` elsewhere"
        )
    from infra.parameters.loading import load
    from infra.parameters.overrides import from_options, strangers
    from stacks.environment_stage import add_environment

    # The built-in validator takes 7 s of every synth; `make check` runs its native twin in 0.1 s.
    # Nobody reads tree.json, and traces would show CDK's JavaScript, not the line in Python.
    app = cdk.App(
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
        stack_traces=False,
        tree_metadata=False,
    )
    folder = root / (app.node.try_get_context("environments") or "environments")
    if not folder.is_dir():
        sys.exit(f"{folder}: there is no such folder; give one with -c environments=FOLDER")
    overrides = from_options(app.node.get_all_context())

    environments = load(root, folder, overrides)
    lost = strangers(overrides, [loaded.name for loaded in environments], "-c")
    if lost:
        sys.exit("\n".join(map(str, lost)))

    for loaded in environments:
        add_environment(app, loaded)

    if repository := app.node.try_get_context("pipeline"):
        from stacks.pipeline_stack import add_pipelines  # roles for a repository's workflows

        provider = app.node.try_get_context("oidc-provider")
        try:
            add_pipelines(app, environments, str(repository), provider)
        except ValueError as wrong:
            sys.exit(str(wrong))

    if nag := app.node.try_get_context("nag"):
        from stacks.audits import audit  # a second of its own: only who asks waits for it

        audit(app, str(nag))

    # The CLI reads an old report as this run's, and refuses what has been mended since.
    Path(app.outdir, "validation-report.json").unlink(missing_ok=True)
    app.synth()
