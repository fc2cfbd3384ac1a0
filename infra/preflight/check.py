"""Everything that is wrong with an environment, in one go."""

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight import (
    artefact,
    capacity,
    code,
    images,
    instances,
    model_sources,
    notifications,
    references,
    rollout,
)
from infra.preflight.acknowledgements import acknowledged
from infra.preflight.rule import Rule

RULES: tuple[Rule, ...] = (
    references.VariantNamesAModel(),
    references.SomethingAnswers(),
    instances.InstanceTypeIsKnown(),
    instances.InstanceTypeIsOffered(),
    instances.ImageRunsOnTheArchitecture(),
    images.TensorFlowVersionHasAnImage(),
    images.ImageHasKernelsForTheGpu(),
    capacity.MinimumIsNotAboveMaximum(),
    capacity.SomethingScalesTheRange(),
    capacity.BurstableInstancesDoNotScale(),
    capacity.AllVariantsScaleOrNone(),
    model_sources.ModelHasOneSource(),
    model_sources.ModelsGoTogether(),
    model_sources.ArtifactKeyIsItsOwn(),
    artefact.ModelCanBePacked(),
    artefact.ModelCanBeLoaded(),
    artefact.WarmUpRequestsFit(),
    code.CodeRunsInTheImage(),
    code.HandlerRunsInTheImage(),
    code.RequirementsAreLocked(),
    code.RequirementsAreInstalledBeforehand(),
    rollout.BakeOutlastsItsAlarm(),
    rollout.RollbackAlarmsFit(),
    notifications.AddressesAreSubscribedOnce(),
)


def check(loaded: Loaded) -> list[Finding]:
    """Problems of shape, and what every rule finds in the rest of the file.

    `loaded.environment` may be deployed when none of them is an error.
    """
    if loaded.draft is None:
        return list(loaded.findings)
    environment = loaded.draft
    found = [one for rule in RULES for one in rule.check(loaded, environment)]
    # What has a problem of shape is out of the draft: what follows from its absence is no news.
    shape = [finding.key for finding in loaded.findings]
    new = [
        one
        for one in found
        if not any(_touch(key, problem) for key in (one.key, *one.reads) for problem in shape)
    ]
    accepting = [rule.id for rule in RULES if rule.acknowledgeable]
    return [*loaded.findings, *acknowledged(loaded, environment, new, accepting)]


def _touch(key: str, problem: str) -> bool:
    """The same key, or one inside the other."""
    return f"{key}.".startswith(f"{problem}.") or f"{problem}.".startswith(f"{key}.")


def errors(findings: list[Finding]) -> list[Finding]:
    """Those that stop a deployment."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]
