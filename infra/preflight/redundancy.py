"""Somebody answers while an instance is replaced."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class CapacitySingle(Rule):
    """One instance is one availability zone: while it is replaced nobody answers.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/how-it-works-hosting.html (two or more
    instances are launched in several Availability Zones)
    """

    id = "capacity-single"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
production = true
variants.primary.min_instances = 1"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        stated = environment.production
        if stated is False or (stated is None and not loaded.name.lower().startswith("prod")):
            return
        if environment.kind != "real_time":
            return  # a queue waits, and a serverless container has no zone
        for name, variant in environment.production_variants.items():
            if variant.min_instances == 1 and variant.weight:
                yield self.finding(
                    loaded,
                    f"variants.{name}.min_instances",
                    1,
                    "min_instances 1 in production: while it is replaced nobody answers",
                    allowed="2 or more, which lie in two availability zones",
                    remedy="set 2, or production = false where nobody depends on it",
                    reads=("production",),
                )
