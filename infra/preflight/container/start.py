"""Rules that compare timeouts with the time that a container needs to start."""

from infra.catalog.limits import most
from infra.parameters.placement import Placement
from infra.policy.sizing import (
    DOWNLOAD,
    STARTUP,
    default_seconds,
    download_seconds,
    load_seconds,
    real_wait_seconds,
    wait_seconds_for,
)
from infra.preflight.rule import Findings, VariantRule, artifact_example


class WaitTooShort(VariantRule):
    """The container polls its models with doubling pauses, so it waits less than is configured.

    Source: wait_for_model in tfs_utils.py of the image, https://github.com/aws/deep-learning-containers,
    read 2026-11-22; infra/policy/sizing.py
    """

    # In 2.20 it waits 51 s of 60 s, 25 s of 50 s and 205 s of 300 s; up to 2.19 it waits 25 s of 60
    # s. The container then exits and starts again from the beginning.

    acknowledgeable = True
    example = artifact_example(
        'variants.primary.instance_type = "ml.g5.2xlarge"',
        "variants.primary.container.wait_time_seconds = 50",
        size_gib=6,
    )

    def look(self, placement: Placement) -> Findings:
        load = load_seconds(placement.served, processes=placement.processes)
        tensorflow = placement.tensorflow
        given = placement.settings.wait_time_seconds
        if given is None:
            given = default_seconds(tensorflow, processes=placement.processes)
        real = real_wait_seconds(given, tensorflow)
        if load is None or real >= load:
            return
        enough = wait_seconds_for(load, tensorflow)
        most_real = real_wait_seconds(enough, tensorflow)
        fits = most_real >= load
        yield self.finding(
            placement.key("container.wait_time_seconds"),
            f"with wait_time_seconds {given} the container waits {real:.0f} s, but loading takes about "
            f"{load:.0f} s",
            given=given,
            allowed=f"{enough} or more" if fits else f"a load of at most {most_real:.0f} s",
            remedy="raise it, or take it out" if fits else "make the model smaller",
            reads=(f"models.{placement.variant.model}", placement.key("container")),
        )


class TimeoutRule(VariantRule):
    """A rule that compares a timeout of a variant with the seconds that are needed."""

    def too_short(
        self, placement: Placement, name: str, shape: str, needed: float | None, what: str
    ) -> Findings:
        """Yields a finding if the timeout is too short.

        `shape` names the limit in the catalog whose maximum is SageMaker's own timeout.
        """
        given = getattr(placement.variant, name) or most(shape)
        if needed is None or needed <= given:
            return
        fits = needed <= most(shape)
        yield self.finding(
            placement.key(name),
            f"{what} takes about {needed:.0f} s, but {name} is {given}",
            given=given,
            allowed=f"{int(needed) + 1} to {most(shape)}" if fits else f"at most {most(shape)} s",
            remedy="raise it" if fits else "make the model smaller",
            reads=(f"models.{placement.variant.model}", placement.key("container")),
        )


class DownloadTimeout(TimeoutRule):
    """SageMaker discards an instance that has not unpacked its model in time and starts another.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ModelDataDownloadTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    acknowledgeable = True
    example = artifact_example(
        'variants.primary.instance_type = "ml.m5.4xlarge"',
        "variants.primary.download_timeout_seconds = 60",
        size_gib=10,
    )

    def look(self, placement: Placement) -> Findings:
        needed, what = download_seconds(placement.served), "fetching and unpacking"
        yield from self.too_short(placement, "download_timeout_seconds", DOWNLOAD, needed, what)


class StartupTimeout(TimeoutRule):
    """A container that does not answer /ping in time counts as failed, and so does the endpoint.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ContainerStartupHealthCheckTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    acknowledgeable = True
    example = artifact_example(
        'variants.primary.instance_type = "ml.g5.2xlarge"',
        "variants.primary.startup_timeout_seconds = 60",
        size_gib=14,
    )

    def look(self, placement: Placement) -> Findings:
        needed = load_seconds(placement.served, processes=placement.processes)
        yield from self.too_short(placement, "startup_timeout_seconds", STARTUP, needed, "loading")
