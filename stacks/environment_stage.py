"""The CDK stage of an environment, with its stacks, or an empty stack that reports its errors."""

import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
import jsii
from aws_cdk import aws_sns as sns
from constructs import Construct, IValidation

from infra.constructs.endpoint.endpoint import Endpoint
from infra.parameters.environment import build_stack_name
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import NAME, Loaded, ValidFile, load_environment
from infra.parameters.overrides import Overrides, find_unknown_environments, from_options
from infra.parameters.sources import list_environment_names
from infra.preflight.check import check, select_errors
from infra.preflight.rendering import format_errors
from stacks.endpoint_stack import EndpointStack

if TYPE_CHECKING:
    from stacks.data_stack import DataStack


def add_environment(scope: Construct, loaded: Loaded) -> None:
    """Add the stage of an environment. If it has errors, add an empty stack that lists them.

    An error of one environment never stops a hotfix of a different one.
    """
    findings = check(loaded)
    wrong = select_errors(findings)
    if isinstance(loaded, ValidFile) and not wrong:
        try:
            EnvironmentStage(scope, loaded, findings)
            return
        except Exception as failure:
            scope.node.try_remove_child(loaded.name)
            first = str(failure).strip().splitlines() or [type(failure).__name__]
            unforeseen = Finding(
                rule="synthesis",
                severity=Severity.ERROR,
                file=loaded.file,
                key="",
                problem=f"cannot be synthesised: {first[0]}",
                remedy="a rule should have found this; please report it and attach the file",
            )
            wrong = [unforeseen]
    add_rejected_stacks(scope, loaded, wrong)


def add_rejected_stacks(scope: Construct, loaded: Loaded, wrong: Sequence[Finding]) -> None:
    """Add empty stacks whose errors stop `cdk deploy` of this environment only, and print them.

    One is in the environment's stage, where it is listed like other stacks, and one in the app
    itself, so that `cdk synth` without a selector fails too. Its ID has `_`, which no environment's
    name can have.
    """
    # The CLI shows a stack's errors when the stack is selected; `cdk list` selects none.
    errors, name = format_errors(wrong), loaded.name
    print(f"{loaded.file} is rejected, {errors}", file=sys.stderr)
    stacks = []
    if re.fullmatch(NAME, name):
        stacks.append(cdk.Stack(cdk.Stage(scope, name), "endpoint"))
    else:  # an environment without a valid name can neither be selected nor deployed
        name = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    # Without a selector the CLI uses the stacks of the app itself; all others are in stages.
    stacks.append(cdk.Stack(scope, f"refused_{name}", stack_name=f"refused-{name}"))
    for stack in stacks:
        cdk.Annotations.of(stack).add_error(errors)


class EnvironmentStage(cdk.Stage):
    """The stage of one environment. Deploy it with `cdk deploy 'ENV/*'`."""

    def __init__(self, scope: Construct, loaded: ValidFile, findings: list[Finding]) -> None:
        super().__init__(scope, loaded.name, env=_describe_place(loaded))
        add_stacks(self, loaded, findings)


def _describe_place(loaded: ValidFile) -> cdk.Environment:
    return cdk.Environment(account=loaded.environment.account, region=loaded.environment.region)


def add_stacks(
    scope: Construct,
    loaded: ValidFile,
    findings: Sequence[Finding],
    env: cdk.Environment | None = None,
) -> "tuple[EndpointStack, DataStack | None]":
    """Add an environment's stacks and warnings. If `env` is None, the stage's is used."""
    environment, data = loaded.environment, None
    if environment.variants and (environment.capture or environment.asynchronous):
        # CDK's modules of S3 and KMS are slow, so they are imported only if needed.
        from stacks.data_stack import DataStack

        data = DataStack(
            scope,
            "data",
            endpoint_name=environment.endpoint.name,
            capture=environment.capture,
            asynchronous=environment.asynchronous,
            tags=environment.tags,
            stack_name=build_stack_name(loaded.name, environment, "data"),
            env=env,
        )
    stack = EndpointStack(
        scope,
        "endpoint",
        environment=environment,
        root=loaded.root,
        overrides=loaded.overrides,
        captured=data.captured if data else None,
        queued=data.queued if data else None,
        stack_name=build_stack_name(loaded.name, environment, "endpoint"),
        env=env,
    )
    if data is not None:
        stack.add_stack_dependency(data)
    for finding in findings:
        if finding.severity is Severity.WARNING:
            cdk.Annotations.of(stack).add_warning_v2(finding.rule, str(finding))
    return stack, data


class EnvironmentFileError(ValueError):
    """An environment file is rejected. The message contains every error."""


@jsii.implements(IValidation)
class _UnreadOverrides:
    """A validation that finds overrides of environments that the app doesn't have.

    The files of these environments are in the same folder as the app's environment file.
    """

    def __init__(self, stacks: "EnvironmentStacks", overrides: Overrides) -> None:
        self._stacks, self._overrides = stacks, overrides

    def validate(self) -> list[str]:
        """Return an error for each override that no `EnvironmentStacks` of the app reads."""
        every = self._stacks.node.root.node.find_all()
        read = [each.file.stem for each in every if isinstance(each, EnvironmentStacks)]
        return [str(finding) for finding in find_unknown_environments(self._overrides, read, "-c")]


class EnvironmentStacks(Construct):
    """An environment file in your own app: its stacks, in one of your stages or the app itself.

    The stacks have the names and the resources that `cdk deploy 'NAME/*'` of a project gives
    them, so that either may deploy them. Allow your own resources to invoke the endpoint with
    `environment.endpoint.grant_invoke(function)`. Raises `EnvironmentFileError` for a file that
    is rejected.

    file: Path of the environment file, for example environments/prod.toml; bases are in the same
        folder. The context `-c prod.KEY=VALUE` overrides its keys, as in a project.
    root: Folder of the project, to which paths in the file are relative. Default: the folder
        above the file's.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        file: Path | str,
        root: Path | str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.file = path = Path(file).resolve()
        project = path.parents[1] if root is None else Path(root).resolve()
        overrides = from_options(self.node.get_all_context())
        own = overrides.pop(path.stem, {})
        loaded = load_environment(project, path.parent, path.stem, own, "-c")
        names = list_environment_names(path.parent)
        if unread := {name: overrides[name] for name in names if name in overrides}:
            self.node.add_validation(_UnreadOverrides(self, unread))
        findings = check(loaded)
        wrong = select_errors(findings)
        if not isinstance(loaded, ValidFile) or wrong:
            raise EnvironmentFileError(f"{loaded.file} is rejected, {format_errors(wrong)}")
        place = _describe_place(loaded)
        self.endpoint_stack, self.data_stack = add_stacks(self, loaded, findings, place)
        """The stack of the endpoint, and that of what outlives it; None if nothing does."""

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint, to grant permissions on it and to read its metrics.

        Its `name` is the file's. Raises ValueError for a file that only has batches.
        """
        return self.endpoint_stack.endpoint

    @property
    def topic(self) -> sns.ITopic:
        """Return the topic of all notifications, for your own alarms."""
        return self.endpoint_stack.topic
