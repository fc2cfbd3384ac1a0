"""The stack that an environment leaves behind when its service, region, or account changes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from infra.parameters.environment import Environment, stack_name
from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from servable.plan.live import LiveState, OldStack, TakenName, deployed_stack
from servable.project.account import AwsError, Clients
from servable.project.revision import RevisionError, files_at, last_change_of

PLACES = ("service", "region", "account")


def find_old_stack(name: str, before: Environment, after: Environment) -> OldStack | None:
    """Return the stack of environment `name` that a deployment leaves behind; None if it is the same."""
    changed = [key for key in PLACES if getattr(before, key) != getattr(after, key)]
    if not changed:
        return None
    kept = before.capture is not None or before.asynchronous is not None
    return OldStack(
        name=stack_name(name, before, "endpoint"),
        data=stack_name(name, before, "data") if before.variants and kept else None,
        region=before.region,
        account=before.account,
        endpoint=before.endpoint.name if before.variants else None,
        protected=before.endpoint.protect,
        moves=" and ".join(
            f"{key} {getattr(before, key) or '(none)'} becomes {getattr(after, key) or '(none)'}"
            for key in changed
        ),
        keys=" and ".join(_restore(key, getattr(before, key)) for key in changed),
    )


def _restore(key: str, value: str | None) -> str:
    return f"take {key} out" if value is None else f'set {key} = "{value}" again'


def as_moved(old: OldStack, after: Environment) -> LiveState:
    """Return the state of the new stack, which doesn't exist, next to the old one."""
    return LiveState(old=old, taken=find_taken(old, after))


def find_taken(old: OldStack, after: Environment) -> tuple[TakenName, ...]:
    """Return the endpoint of the old stack, if the new one needs its name: it is unique in a region."""
    same = (old.region, old.account) == (after.region, after.account)
    # SageMaker's names ignore case.
    if not same or old.endpoint is None or old.endpoint.lower() != after.endpoint.name.lower():
        return ()
    if not after.variants:
        return ()
    taken = TakenName(
        "endpoint",
        f"{old.moves}: this is a different stack, and {old.name} has the endpoint {old.endpoint}, "
        "so that the deployment fails",
        f"{old.keys}, or choose a different endpoint.name, which makes a second endpoint",
    )
    return (taken,)


def explain_second_endpoint(old: OldStack, after: Environment) -> str:
    """Return what a deployment makes in the new place, what stays in the old one, and what to do."""
    made = f"a second endpoint, {after.endpoint.name}," if after.variants else "the batches again"
    has = f"with the endpoint {old.endpoint}" if old.endpoint else "with its batches"
    stack = f"{old.name} in {old.region} of account {old.account}"
    stays = f"{stack} stays, {has}, and is billed"
    if not old.seen:
        stays = f"if {stack} still exists, which these credentials cannot read, that stays, {has}"
    data = f" (and {old.data} after you have saved what it keeps)" if old.data else ""
    return (
        f"{old.moves}: this is a different stack. CloudFormation creates {made} and {stays}. To change the "
        f"first one instead, {old.keys}. To move, deploy, let callers use the new one, then delete the old "
        f"stack{data} with credentials of account {old.account}: "
        f"`{deletion(old)}`"
    )


def deletion(old: OldStack) -> str:
    """Return the command that deletes the old stack, and the endpoint that a protected stack keeps."""
    where = f"--stack-name {old.name} --region {old.region}"
    commands = [f"aws cloudformation delete-stack {where}"]
    if old.protected:
        unlock = "--no-enable-termination-protection"
        commands.insert(0, f"aws cloudformation update-termination-protection {unlock} {where}")
        if old.endpoint:
            named = f"--endpoint-name {old.endpoint} --region {old.region}"
            commands.append(f"aws sagemaker delete-endpoint {named}")
    return " && ".join(commands)


def add_old_stack(
    now: LiveState,
    loaded: ValidFile,
    root: Path,
    folder: Path,
    clients: Callable[[Environment], Clients],
) -> LiveState:
    """Return the state with the stack that git's history of the file names, if that stack still exists.

    Only a file whose stack does not exist is compared: with the last commit, and with the file before the
    last commit that changed a place. `clients`: returns the clients for an environment's account and region.
    """
    if now.template is not None:
        return now
    for before in _former(root, folder, loaded.name):
        old = find_old_stack(loaded.name, before, loaded.environment)
        if old is None:
            continue
        exists = _exists(old, before, clients)
        if exists is False:
            return now
        old = replace(old, seen=exists is True)
        return replace(now, old=old, taken=find_taken(old, loaded.environment) or now.taken)
    return now


def _former(root: Path, folder: Path, name: str) -> Iterator[Environment]:
    """Yield the environment at the revisions to compare with; none without git."""
    try:
        for revision in ("HEAD", *last_change_of(root, folder, PLACES)):
            then = files_at(root, folder, revision).get(name)
            if isinstance(then, ValidFile):
                yield then.environment
    except RevisionError:
        return


def _exists(
    old: OldStack, before: Environment, clients: Callable[[Environment], Clients]
) -> bool | None:
    """Return whether the old stack is deployed; None if these credentials cannot read it."""
    try:
        client = clients(before)
        if client("sts").get_caller_identity()["Account"] != old.account:
            return None
        return deployed_stack(old.name, client("cloudformation"))[1] is not None
    except (PackagingError, *AwsError):
        return None
