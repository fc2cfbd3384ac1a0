"""The CDK app of a project. Deploy each environment's stage with `cdk deploy 'NAME/*'`."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aws_cdk as cdk


def synthesise(
    root: Path, *, outdir: str | None = None, context: Mapping[str, str] | None = None
) -> None:
    """Write the cloud assembly of the project in `root` to `outdir`, or where the CDK CLI says.

    The CLI's context, or `context`, selects the folder of environment files (`environments`),
    overrides, the roles of a pipeline, audits, and packing during synthesis (`pack=synth`). Exits
    with a message if synthesis isn't possible.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit)
    # The process lives for seconds: garbage collection would take a twentieth of its time.
    gc.disable()
    try:
        start_cdk()
        import aws_cdk as cdk
    except ModuleNotFoundError as missing:
        from infra.recording import build_install_command  # imports no other package

        sys.exit(f"{missing}: {build_install_command('synth')}")
    from infra.parameters.loading import load
    from infra.parameters.overrides import find_unknown_environments, from_options
    from stacks.environment_stage import add_environment

    # The built-in validator takes 7 s of every synth; `make check` runs its native twin in 0.1 s.
    # tree.json is not used, and stack traces would show CDK's JavaScript instead of the line in Python.
    app = cdk.App(
        outdir=outdir,
        context=context,
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
        stack_traces=False,
        tree_metadata=False,
    )
    folder = root / (app.node.try_get_context("environments") or "environments")
    if not folder.is_dir():
        sys.exit(f"{folder} doesn't exist; pass an existing folder: -c environments=FOLDER")
    overrides = from_options(app.node.get_all_context())
    environments = load(root, folder, overrides)
    lost = find_unknown_environments(overrides, [loaded.name for loaded in environments], "-c")
    if lost:
        sys.exit("\n".join(map(str, lost)))

    for loaded in environments:
        add_environment(app, loaded)

    if repository := app.node.try_get_context("pipeline"):
        from stacks.pipeline_stack import add_pipelines  # roles for a repository's workflows

        given = map(app.node.try_get_context, ("oidc-provider", "registry-token"))
        try:
            add_pipelines(app, environments, str(repository), *given)
        except ValueError as wrong:
            sys.exit(str(wrong))

    if nag := app.node.try_get_context("nag"):
        from stacks.audits import add_rule_packs  # a second of its own: only who asks waits for it

        add_rule_packs(app, str(nag))
    _write_assembly(app)


def _write_assembly(app: "cdk.App") -> None:
    """Write the assembly, and pack it with `pack=synth`. Exit for any other value."""
    packing = app.node.try_get_context("pack")
    if packing not in (None, "synth"):
        sys.exit(
            f"-c pack={packing}: allowed: synth; omit it to pack when the archive is published"
        )
    # The CLI would take an old report for this run's, and refuse what has been corrected since.
    Path(app.outdir, "validation-report.json").unlink(missing_ok=True)
    app.synth()
    if packing:
        from stacks.packed_assembly import pack

        for packed in pack(Path(app.outdir)):
            print(f"packed {packed}", file=sys.stderr)


def start_cdk() -> None:
    """Import aws_cdk, which starts Node.js with a temporary folder that this process removes.

    A terminal's Ctrl-C and `timeout` send a signal to the whole process group. Node.js then ends
    at once, and would leave its files (jsii-kernel-*) behind.
    """
    if "aws_cdk" in sys.modules:
        return
    folder = tempfile.mkdtemp(prefix="servable-jsii-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    before = tempfile.gettempdir()
    os.environ["TMPDIR"] = folder
    import aws_cdk  # noqa: F401

    os.environ["TMPDIR"] = before


def _exit(number: int, frame: object) -> None:
    """Exit without a stack trace. The next synthesis writes everything again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.exit(128 + number)  # and not os._exit: atexit ends Node.js, and removes its files
