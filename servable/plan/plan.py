"""Plans what a deployment does to the endpoint, and to one that a renamed environment leaves."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from infra.parameters.environment import Environment, build_stack_name
from infra.parameters.loading import (
    ValidFile,
    build_deployed_variants,
    build_endpoint_state,
    build_hold_overrides,
)
from infra.policy.update import REFUSED_UPDATES, DeployedVariant, EndpointState
from model_packaging.refusal import PackagingError
from servable.plan.live import CALM, LiveState, OldStack, TakenName, read_deployed_stack
from servable.plan.template_changes import (
    TemplateChange,
    describe_component_changes,
    find_endpoint_name,
    is_endpoint_retained,
    list_changes,
    list_tag_changes,
    predict_new_fleet,
)
from servable.project.account import AwsError, Clients
from servable.project.environments import Project, format_stage_command
from servable.project.revision import RevisionError, find_revision_before_change, load_revision

PLACES = ("service", "region", "account")


def find_old_stack(name: str, before: Environment, after: Environment) -> OldStack | None:
    """Return the stack that a deployment leaves behind; None if service, Region, account stay."""
    places = {key: (getattr(before, key), getattr(after, key)) for key in PLACES}
    changed = {key: (old, new) for key, (old, new) in places.items() if old != new}
    if not changed:
        return None
    kept = before.capture is not None or before.asynchronous is not None
    return OldStack(
        name=build_stack_name(name, before, "endpoint"),
        before=before,
        data=build_stack_name(name, before, "data") if before.variants and kept else None,
        endpoint=before.endpoint.name if before.variants else None,
        moves=" and ".join(
            f"{key} {old or '(none)'} changes to {new or '(none)'}"
            for key, (old, new) in changed.items()
        ),
        keys=" and ".join(
            f"take {key} out" if old is None else f'set {key} = "{old}" again'
            for key, (old, _) in changed.items()
        ),
    )


def find_endpoint_conflict(old: OldStack, after: Environment) -> tuple[TakenName, ...]:
    """Return the old stack's endpoint if the new stack needs its name, otherwise an empty tuple.

    An endpoint's name is unique in an account and Region.
    """
    same = (old.before.region, old.before.account) == (after.region, after.account)
    # SageMaker's names ignore case.
    needed = after.endpoint.name.lower() if same and after.variants else None
    if old.endpoint is None or old.endpoint.lower() != needed:
        return ()
    taken = TakenName(
        "endpoint",
        f"{old.moves}: this is a different stack, and {old.name} has the endpoint {old.endpoint}, "
        "so the deployment would fail",
        f"{old.keys}, or choose a different endpoint.name, which creates a second endpoint",
    )
    return (taken,)


def explain_second_endpoint(old: OldStack, after: Environment) -> str:
    """Return what a deployment creates, what remains of the old stack, and how to keep or move it."""
    made = f"a second endpoint, {after.endpoint.name}," if after.variants else "the batches again"
    has = f"with the endpoint {old.endpoint}" if old.endpoint else "with its batches"
    stack = f"{old.name} in {old.before.region} of account {old.before.account}"
    stays = f"{stack} stays, {has}, and is billed"
    if not old.seen:
        stays = f"if {stack} still exists, which these credentials cannot read, that stays, {has}"
    data = f" (and {old.data} after you have saved its data)" if old.data else ""
    return (
        f"{old.moves}: this is a different stack. CloudFormation creates {made} and {stays}. To change the "
        f"first one instead, {old.keys}. To move, deploy, let callers use the new one, then delete the old "
        f"stack{data} with credentials of account {old.before.account}: "
        f"`{build_deletion_command(old)}`"
    )


def build_deletion_command(old: OldStack) -> str:
    """Return the command that deletes the old stack.

    For a protected stack, it also disables the protection and deletes the endpoint that the stack
    retains.
    """
    where = f"--stack-name {old.name} --region {old.before.region}"
    commands = [f"aws cloudformation delete-stack {where}"]
    if old.before.endpoint.protect:
        unlock = "--no-enable-termination-protection"
        commands.insert(0, f"aws cloudformation update-termination-protection {unlock} {where}")
        if old.endpoint:
            named = f"--endpoint-name {old.endpoint} --region {old.before.region}"
            commands.append(f"aws sagemaker delete-endpoint {named}")
    return " && ".join(commands)


def add_old_stack(
    now: LiveState, loaded: ValidFile, project: Project, clients: Callable[[Environment], Clients]
) -> LiveState:
    """Return the state, and in it the stack that an earlier commit of the file named, if it still exists.

    Only a file whose stack doesn't exist is compared: with the last commit, and with the file
    before the last commit that changed service, Region, or account. `clients` returns the clients
    for an environment's account and Region.
    """
    if now.template is not None:
        return now
    for before in _find_former_environments(project, loaded.name):
        old = find_old_stack(loaded.name, before, loaded.environment)
        if old is None:
            continue
        exists = _detect_deployment(old, clients)
        if exists is False:
            return now
        taken = find_endpoint_conflict(old, loaded.environment) or now.taken
        return replace(now, old=replace(old, seen=exists is True), taken=taken)
    return now


def _find_former_environments(project: Project, name: str) -> Iterator[Environment]:
    """Yield the environment at the revisions to compare with; nothing without git."""
    try:
        for revision in ("HEAD", *find_revision_before_change(project, PLACES)):
            then = load_revision(project, revision).get(name)
            if isinstance(then, ValidFile):
                yield then.environment
    except RevisionError:
        return


def _detect_deployment(old: OldStack, clients: Callable[[Environment], Clients]) -> bool | None:
    """Return whether the old stack is deployed, or None if these credentials can't read it."""
    try:
        client = clients(old.before)
        if client("sts").get_caller_identity()["Account"] != old.before.account:
            return None
        return read_deployed_stack(old.name, client("cloudformation"))[1] is not None
    except (PackagingError, *AwsError):
        return None


Verdict = (
    Literal["nothing", "create", "update", "second endpoint", "two deploys"]
    | Literal["replace", "delete", "keep", "refused"]
)
WORKTREE = "../deployed"


@dataclass(frozen=True)
class Deploy:
    """One command, and its purpose."""

    command: str
    why: str


@dataclass(frozen=True, kw_only=True)
class DeployPlan:
    environment: str
    against: str
    """A revision, or "what is live"."""
    verdict: Verdict
    reasons: list[str] = field(default_factory=list)
    """Why one deploy isn't enough, or what it breaks; empty if one deploy is enough."""
    changes: list[TemplateChange] = field(default_factory=list)
    deploys: list[Deploy] = field(default_factory=list)
    new_fleet: bool | None = False
    """Whether the deploy replaces the fleet; None: inconclusive."""
    components: list[str] = field(default_factory=list)
    """Changes of inference components, each a sentence."""
    instances: Mapping[str, int] = field(default_factory=dict)
    """Instances that run now, by variant; empty if unknown."""

    @property
    def needs_attention(self) -> bool:
        """Return whether the change needs more than one ordinary deployment, or is refused."""
        return self.verdict not in ("nothing", "create", "update")


def build_plan(
    loaded: ValidFile,
    now: LiveState,
    made: Mapping[str, Mapping[str, Any]],
    *,
    against: str,
    folder: str,
) -> DeployPlan:
    """Return the plan from the live state to the templates of the file.

    `made` is the template of ENV/endpoint and, if the file has one, that of ENV/data, by kind.
    `folder` is the folder of the environment files, as given on the command line.
    """
    environment, after = loaded.environment, made["endpoint"]
    changed = list_changes(now.template, after)
    if now.template is not None:
        changed = list_tag_changes(now.tags, environment.tags) + changed
    if "data" in made:
        changed += list_changes(now.data_template, made["data"], stack="data")
    verdict, reasons = _decide_verdict(loaded, now, after, bool(changed))
    before = EndpointState(variants=now.variants, queued=now.queued)
    # Changes that SageMaker refuses in any number of deploys, each with a remedy; and the scaled
    # variants that change their type or are removed -> its refusal of one deploy.
    never: list[str] = []
    stuck: dict[str, str] = {}
    for row in REFUSED_UPDATES:
        problems = row.problems(before, build_endpoint_state(environment))
        if row.two_deploys:
            stuck |= problems
        else:
            remedy = row.format_remedy(loaded.name)
            never += [f"{problem}; {remedy}" for problem in problems.values()]
    if verdict == "update" and never:
        verdict, reasons = "refused", never
    command = format_stage_command("deploy", loaded.name, folder=folder, overrides=loaded.overrides)
    change = Deploy(command, "the change")
    deploys = [] if verdict in ("nothing", "refused") else [change]
    if now.unlocking:
        unlock = Deploy(now.unlocking, "the stack may be deleted")
        deploys = [unlock, Deploy(command, "deletes it and creates it again")]
    if verdict == "update" and stuck:
        verdict, reasons = "two deploys", list(stuck.values())
        held = {name: now.variants[name] for name in stuck}
        deploys = [_build_first_deploy(loaded, now, held, against, folder), change]
    updates = bool(environment.variants) and verdict in ("update", "two deploys")
    return DeployPlan(
        environment=loaded.name,
        against=against,
        verdict=verdict,
        reasons=reasons,
        changes=changed,
        deploys=deploys,
        new_fleet=updates and predict_new_fleet(now.template, after),
        components=describe_component_changes(now.template, after) if now.template else [],
        instances=now.instances,
    )


def _decide_verdict(
    loaded: ValidFile, now: LiveState, after: Mapping[str, Any], anything: bool
) -> tuple[Verdict, list[str]]:
    """Return (verdict, reasons)."""
    if now.stack_status is not None and now.stack_status.endswith("_IN_PROGRESS"):
        return "refused", [f"the stack is in {now.stack_status}: wait until it has finished"]
    if now.endpoint_status in ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"):
        reason = f"{now.endpoint_name} is {now.endpoint_status}: wait until it has finished"
        return "refused", [reason]
    own = [part["Type"] for part in (now.template or {}).get("Resources", {}).values()]
    if now.components and now.old is None and "AWS::SageMaker::InferenceComponent" not in own:
        return "refused", [
            f"{now.endpoint_name} hosts inference components, which this stack did not create: its variants "
            "name no model, so this file can't update it; choose a different endpoint.name, "
            "or delete the components and that endpoint first"
        ]
    blocked = []
    if now.unlocking:
        blocked.append(
            f"the stack couldn't be created ({now.stack_status}), and endpoint.protect keeps it from "
            "being deleted, which `cdk deploy` does before it retries. Unlock it, then deploy, which "
            "protects it again"
        )
    blocked += [f"{taken.problem}: {taken.remedy}" for taken in now.taken]
    if now.template is None and now.old is not None and not blocked:
        return "second endpoint", [explain_second_endpoint(now.old, loaded.environment)]
    if blocked or now.template is None:
        return ("refused" if blocked else "create"), blocked
    if now.stack_status is not None and now.stack_status not in CALM:
        state = f"the stack is in {now.stack_status}"
        return "refused", [
            f"{state}: run `aws cloudformation continue-update-rollback`, or delete it"
        ]
    before, name = find_endpoint_name(now.template), find_endpoint_name(after)
    kept = is_endpoint_retained(now.template)
    if before in (None, name):
        return ("update" if anything else "nothing"), []
    if name is None:
        gone = "the file no longer has a [variants.NAME], so CloudFormation"
        if not kept:
            return "delete", [f"{gone} deletes the endpoint {before}, and its callers will fail"]
        return "keep", [
            f"{gone} keeps the endpoint {before}, which is protected: it stays up, billed, outside the "
            "stack, without its model and role: move callers, then "
            f"`aws sagemaker delete-endpoint --endpoint-name {before}`"
        ]
    if kept and is_endpoint_retained(after):
        return "replace", [
            f"endpoint.name {before} becomes {name}: CloudFormation creates {name} and keeps {before}, "
            "which is protected: it stays up, billed, outside the stack, and still responds. Its model, "
            "configuration, and role stay in the stack, so the next change of those deletes the ones it "
            f"needs: move callers soon, then `aws sagemaker delete-endpoint --endpoint-name {before}`"
        ]
    return "replace", [
        f"endpoint.name {before} becomes {name}: CloudFormation deletes {before} and recreates it "
        f"as {name}; callers of {before} will fail. To move callers first, deploy "
        f"a second environment next to it: `servable init --from {loaded.name} --name {loaded.name}-next`"
    ]


def _build_first_deploy(
    loaded: ValidFile,
    now: LiveState,
    stuck: Mapping[str, DeployedVariant],
    against: str,
    folder: str,
) -> Deploy:
    """Return the first of two deploys: it removes scaling and changes nothing else."""
    new = build_deployed_variants(loaded.environment)
    # A command-line option can neither add a variant nor remove a key from a file.
    gone = any(
        name not in new or bool(old.pools) != bool(new[name].pools) for name, old in stuck.items()
    )
    overrides = {**loaded.overrides, **build_hold_overrides(stuck)}
    command = format_stage_command("deploy", loaded.name, folder=folder, overrides=overrides)
    if gone and loaded.against is None:
        command = _build_deregister_command(loaded.environment, now, stuck)
    elif gone:  # the file no longer has the variant, so the deployed file is checked out from git
        command = (
            f"git worktree add {WORKTREE} {against} && (cd {WORKTREE} && {command}); "
            f"git worktree remove --force {WORKTREE}"
        )
    return Deploy(command, f"scaling of {', '.join(stuck)} off; the number of instances stays")


def _build_deregister_command(
    environment: Environment, now: LiveState, stuck: Mapping[str, DeployedVariant]
) -> str:
    """Return the command that deregisters scalable targets of variants in no file.

    The next deployment removes the same targets from the stack; CloudFormation accepts that they
    are gone.
    """
    return " && ".join(
        "aws application-autoscaling deregister-scalable-target --service-namespace sagemaker "
        f"--resource-id endpoint/{now.endpoint_name}/variant/{name} --scalable-dimension sagemaker:variant:"
        f"Desired{'ProvisionedConcurrency' if variant.instance_type is None else 'InstanceCount'} "
        f"--region {environment.region}"
        for name, variant in stuck.items()
    )
