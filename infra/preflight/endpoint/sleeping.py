"""Rules about components that sleep: no copy runs while nobody asks, and no instance.

Nobody has shown TensorFlow Serving at zero: docs/variants.md says so, and it is no finding.
"""

from infra.parameters.variant import Variant
from infra.preflight.rule import Findings, Rule, VariantTableRule

# Minutes that a target tracking policy looks back before it removes a copy, as its alarms were seen.
TRACKING_MINUTES = 15


class SleepRule(VariantTableRule):
    """A rule about variants and components that sleep."""

    table = "sleep_after_minutes"


class SleepRegion(SleepRule):
    """A minimum of no instances was refused in eu-west-3; the SDK excludes GovCloud, isolated regions, China.

    Source: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27: "Min instance count needs to be
    greater than 0 for enabled managed instance scaling"; us-east-1 takes it);
    https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026)
    """

    acknowledgeable = True
    example = """\
region = "eu-west-3"
variants.primary.sleep_after_minutes = 15"""
    key = "region"
    problem = "in {self.environment.region} a minimum of zero instances is refused (variant {name})"
    allowed = "a region other than eu-west-3, us-gov-*, us-iso*, cn-*"
    remedy = "choose another region, or take sleep_after_minutes out"
    reads = ("variants.{name}.sleep_after_minutes",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        if self.environment.region.startswith(("eu-west-3", "us-gov-", "us-iso", "cn-")):
            yield self.finding(name=name)


class SleepTracking(SleepRule):
    """Target tracking removes the last copy too, after 15 minutes below its target.

    Source: https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
    (2024-12-03)
    """

    example = """\
variants.primary.sleep_after_minutes = 60
variants.primary.scaling = { max_rps_per_instance = 100 }"""
    key = "variants.{name}.sleep_after_minutes"
    problem = "sleep_after_minutes {minutes}: scaling by a target ends the last copy after 15"
    allowed = f"1 to {TRACKING_MINUTES} with max_rps_per_instance or max_concurrency_per_instance"
    remedy = "lower it, or take the target out of the scaling table"
    reads = ("variants.{name}.scaling",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        table = variant.scaling
        tracked = table and (table.max_rps_per_instance or table.max_concurrency_per_instance)
        if tracked and minutes > TRACKING_MINUTES:
            yield self.finding(name=name, minutes=minutes)


class SleepUnwatched(Rule):
    """An alarm on missing traffic fires whenever the endpoint sleeps, which is no fault.

    Source: docs/variants.md
    """

    example = """\
variants.primary.sleep_after_minutes = 15
alarms.no_traffic_minutes = 30"""
    key = "alarms.no_traffic_minutes"
    problem = (
        "no_traffic_minutes {minutes}: {name} sleeps without traffic, and the alarm would fire"
    )
    allowed = "no no_traffic_minutes with sleep_after_minutes"
    remedy = "take one of them out"
    reads = ("variants.{name}.sleep_after_minutes",)

    def look(self) -> Findings:
        minutes = self.environment.alarms.no_traffic_minutes
        for name, variant in self.environment.tables.items():
            if minutes is not None and variant.sleeps:
                yield self.finding(name=name, minutes=minutes)


class SleepProduction(SleepRule):
    """Every request is refused until the first copy serves: 5 to 10 minutes, as seen.

    Source: https://aws.amazon.com/blogs/machine-learning/unlock-cost-savings-with-the-new-scale-down-to-zero-feature-in-amazon-sagemaker-inference/
    (2024-12-03); https://github.com/huggingface/skills/pull/215 (2026-07)
    """

    acknowledgeable = True
    example = """\
production = true
variants.primary.sleep_after_minutes = 15"""
    key = "variants.{name}.sleep_after_minutes"
    problem = "sleep_after_minutes {minutes}: callers in production are refused for minutes"
    allowed = "only where production = false"
    remedy = "take it out; callers that may wait: acknowledge it"
    reads = ("production",)

    def look(self, name: str, variant: Variant, minutes: int) -> Findings:
        if self.candidate.in_production:
            yield self.finding(name=name, minutes=minutes)
