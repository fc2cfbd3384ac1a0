"""The time that a start takes, against the time that is given to it."""

from collections.abc import Iterator

from infra.catalog.limits import most
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.placement import Placement
from infra.policy.sizing import download_seconds, load_seconds
from infra.policy.wait_time import (
    DEFAULT_SECONDS,
    DOWNLOAD,
    STARTUP,
    real_wait_seconds,
    wait_seconds_for,
)
from infra.preflight.rule import VariantRule, artifact_example


class WaitTooShort(VariantRule):
    """The container looks for its models with doubling pauses, so it waits less than it was told to.

    60 s are 51, 50 s are 25. After them the container ends, and starts again from the beginning.
    Source: tfs_utils.wait_for_model of the image; infra/policy/wait_time.py
    """

    acknowledgeable = True
    example = "\n".join(
        (
            artifact_example(size_gib=6),
            'variants.primary.instance_type = "ml.g5.2xlarge"',
            "variants.primary.container.wait_time_seconds = 50",
        )
    )

    def look(self, environment: Environment, placement: Placement) -> Iterator[Finding]:
        load = load_seconds(placement.served, processes=placement.processes)
        given = placement.settings.wait_time_seconds or DEFAULT_SECONDS
        real = real_wait_seconds(given)
        if load is not None and real < load:
            yield self.finding(
                placement.key("container.wait_time_seconds"),
                given,
                f"wait_time_seconds {given} really waits {real:.0f} s; loading takes about {load:.0f}",
                allowed=f"{wait_seconds_for(load)} or more",
                remedy="raise it, or take it out",
                reads=(f"models.{placement.variant.model}", placement.key("container")),
            )


class DownloadTimeout(VariantRule):
    """An instance that has not unpacked its model in time is thrown away and another one begun.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ModelDataDownloadTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    acknowledgeable = True
    example = "\n".join(
        (
            artifact_example(size_gib=10),
            'variants.primary.instance_type = "ml.m5.4xlarge"',
            "variants.primary.download_timeout_seconds = 60",
        )
    )

    def look(self, environment: Environment, placement: Placement) -> Iterator[Finding]:
        needed = download_seconds(placement.served)
        given = placement.variant.download_timeout_seconds or most(DOWNLOAD)
        if needed is not None and needed > given:
            yield self.finding(
                placement.key("download_timeout_seconds"),
                given,
                f"fetching and unpacking takes about {needed:.0f} s, download_timeout_seconds is {given}",
                allowed=_allowed(needed, DOWNLOAD),
                remedy="raise it" if needed <= most(DOWNLOAD) else "make the model smaller",
                reads=(f"models.{placement.variant.model}",),
            )


class StartupTimeout(VariantRule):
    """A container that does not answer /ping in time counts as failed, and the endpoint with it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (ContainerStartupHealthCheckTimeoutInSeconds); docs/decisions/0011 (rates)
    """

    acknowledgeable = True
    example = "\n".join(
        (
            artifact_example(size_gib=14),
            'variants.primary.instance_type = "ml.g5.2xlarge"',
            "variants.primary.startup_timeout_seconds = 60",
        )
    )

    def look(self, environment: Environment, placement: Placement) -> Iterator[Finding]:
        needed = load_seconds(placement.served, processes=placement.processes)
        given = placement.variant.startup_timeout_seconds or most(STARTUP)
        if needed is not None and needed > given:
            yield self.finding(
                placement.key("startup_timeout_seconds"),
                given,
                f"loading takes about {needed:.0f} s, startup_timeout_seconds is {given}",
                allowed=_allowed(needed, STARTUP),
                remedy="raise it" if needed <= most(STARTUP) else "make the model smaller",
                reads=(f"models.{placement.variant.model}", placement.key("container")),
            )


def _allowed(needed_seconds: float, shape: str) -> str:
    if needed_seconds > most(shape):
        return f"at most {most(shape)} s"
    return f"{int(needed_seconds) + 1} to {most(shape)}"
