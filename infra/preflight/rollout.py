"""How an update reaches the traffic, and by when."""

from collections.abc import Iterator

from infra.catalog.limits import most
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.policy.sizing import start_seconds
from infra.policy.update import LONGEST
from infra.preflight.placement import Placement
from infra.preflight.rule import Rule, VariantRule

MOST_ALARMS = 10


class RolloutBakeTooShort(Rule):
    """A bake shorter than the alarms' window ends before an alarm can fire: it protects nothing.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html
    """

    id = "rollout-bake-too-short"
    example = """\
alarms.window_minutes = 10
rollout = { strategy = "canary", bake_minutes = 10 }"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        rollout, window = environment.rollout, environment.alarms.window_minutes
        if rollout is not None and rollout.bake_minutes <= window:
            yield self.finding(
                loaded,
                "rollout.bake_minutes",
                rollout.bake_minutes,
                f"bake_minutes {rollout.bake_minutes} ends before an alarm over window_minutes "
                f"{window} can fire",
                allowed=f"more than {window}, at most 60",
                remedy="raise bake_minutes, or lower alarms.window_minutes",
                reads=("alarms.window_minutes",),
            )


class RolloutTooManyAlarms(Rule):
    """An update is watched by at most ten alarms.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html
    """

    id = "rollout-too-many-alarms"
    example = "# [rollout] and six variants with alarms.p99_latency_ms"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        each = 1 if environment.alarms.p99_latency_ms is None else 2
        count = each * len(environment.production_variants)
        if environment.rollout is not None and count > MOST_ALARMS:
            yield self.finding(
                loaded,
                "rollout.strategy",
                environment.rollout.strategy,
                f"{environment.rollout.strategy}: {len(environment.production_variants)} variants with "
                f"{each} rollback alarm{'s' if each > 1 else ''} each make {count}",
                allowed=f"at most {MOST_ALARMS}",
                remedy="take variants out, or [rollout]",
            )


class RolloutTooLong(VariantRule):
    """SageMaker takes an update back that is not through after eight hours, bakes and all.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BlueGreenUpdatePolicy.html
    (MaximumExecutionTimeoutInSeconds)
    """

    id = "rollout-too-long"
    example = """\
variants.primary.min_instances = 10
rollout = { strategy = "linear", step_percent = 10, bake_minutes = 60 }"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        rollout, variant = environment.rollout, placement.variant
        if rollout is None:
            return
        start = start_seconds(placement.served, processes=placement.processes) or 0
        # Unknown, a start counts nothing here: the bakes alone may be too much.
        possible = rollout.updates(
            least=variant.min_instances,
            most=variant.most_instances,
            window_minutes=environment.alarms.window_minutes,
        )
        lengths = [(one.expected_seconds(start) or 0, one.instances) for one in possible]
        seconds, count = max(lengths, default=(0, 0))
        if seconds > most(LONGEST):
            yield self.finding(
                loaded,
                "rollout.bake_minutes",
                rollout.bake_minutes,
                f"bakes of {rollout.bake_minutes} minutes: with {count} instances of "
                f"{placement.name} an update takes {seconds / 3600:.1f} hours",
                allowed=f"at most {most(LONGEST) // 3600} hours",
                remedy="bake shorter, or in fewer steps",
                reads=(placement.key("min_instances"), placement.key("max_instances")),
            )
