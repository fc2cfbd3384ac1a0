"""Rules about an update's shares of traffic, its duration, and the alarms and requests that watch it."""

import math
from dataclasses import replace

from infra.catalog.limits import find_maximum
from infra.catalog.metrics import compute_minimum_samples
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.rollout import MOST_ALARMS, SHARE, Rollout
from infra.policy.update import LONGEST
from infra.preflight.model.known_requests import KnownRequestRule, find_file
from infra.preflight.rendering import format_count
from infra.preflight.rule import Findings, Parts, Rule, VariantRule

SECONDS_PER_MINUTE = 60


class RolloutRule(Rule):
    """A rule about updates with a [rollout] table."""

    def list_parts(self) -> Parts:
        return [] if self.environment.rollout is None else [(self.environment.rollout,)]


class RolloutBakeTooShort(RolloutRule):
    """A bake shorter than the alarms' window ends before an alarm can fire, so it protects nothing.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html
    """

    key = "rollout.bake_minutes"
    problem = (
        "bake_minutes {rollout.bake_minutes} ends before an alarm over window_minutes "
        "{self.environment.window_minutes} can fire"
    )
    remedy = "raise bake_minutes, or lower alarms.window_minutes"
    reads = ("alarms.window_minutes",)

    def find_problems(self, rollout: Rollout) -> Findings:
        if rollout.bake_minutes <= self.environment.window_minutes:
            yield self.build_finding()


class RolloutTooManyAlarms(RolloutRule):
    """SageMaker watches an update with at most ten alarms; 5xx and p99 of every variant come first.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html
    """

    key = "rollout.strategy"
    problem = "{rollout.strategy}: {variants} variants with {alarms} each need {count} in total"
    allowed = f"at most {MOST_ALARMS}"
    remedy = "remove variants, or [rollout]"

    def find_problems(self, rollout: Rollout) -> Findings:
        each = 1 if self.environment.alarms.p99_latency_ms is None else 2
        variants = len(self.environment.production_variants)
        alarms = format_count(each, "rollback alarm")
        if each * variants > MOST_ALARMS:
            yield self.build_finding(variants=variants, alarms=alarms, count=each * variants)


class RolloutAlarmLeftOut(RolloutRule, severity=Severity.WARNING):
    """SageMaker accepts only ten alarms: the thresholds beyond them don't roll an update back.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html
    """

    key = "rollout.strategy"
    problem = (
        "{rollout.strategy}: {count} rollback alarms are configured, but SageMaker watches only "
        f"{MOST_ALARMS}; left out: {{names}}"
    )
    remedy = "set rollout.rollback_on_4xx = false, remove variants, or acknowledge this finding"
    reads = ("rollout.rollback_on_4xx", "alarms.error_4xx_percent", "alarms.model_error_percent")

    def find_problems(self, rollout: Rollout) -> Findings:
        environment = self.environment
        variants, kind = list(environment.production_variants), environment.kind
        watched = rollout.list_rollback_alarms(environment.alarms, variants=variants, kind=kind)
        left_out = [name for name in watched[MOST_ALARMS:] if name[1] not in ("5xx", "latency")]
        if left_out:
            names = ", ".join("-".join(filter(None, name)) for name in left_out)
            yield self.build_finding(count=len(watched), names=names)


class RolloutTooLong(VariantRule):
    """SageMaker rolls back an update that has not finished after eight hours, bakes included.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BlueGreenUpdatePolicy.html
    (MaximumExecutionTimeoutInSeconds)
    """

    key = "rollout.bake_minutes"
    problem = (
        "with bakes of {minutes} minutes and {count} instances of {placement.name} an update takes "
        "{hours:.1f} hours"
    )
    allowed = f"at most {find_maximum(LONGEST) // 3600} hours"
    remedy = "lower bake_minutes, or use fewer steps"
    reads = ("min_instances", "max_instances")

    def find_problems(self, placement: Placement) -> Findings:
        rollout, variant = self.environment.rollout, placement.variant
        if rollout is None:
            return
        # An unknown start counts 0: the bakes alone may be too long.
        start = placement.start_seconds or 0
        possible = rollout.list_updates(
            least=variant.min_instances,
            most=variant.instance_limit,
            window_minutes=self.environment.window_minutes,
        )
        lengths = [(update.estimate_seconds(start) or 0, update.instances) for update in possible]
        seconds, count = max(lengths, default=(0, 0))
        if seconds > find_maximum(LONGEST):
            minutes, hours = rollout.bake_minutes, seconds / 3600
            yield self.build_finding(minutes=minutes, count=count, hours=hours)


class RolloutShareBelowInstance(RolloutRule, severity=Severity.WARNING):
    """Shares are whole instances: a tenth of two instances is one of two, and gets half of the traffic.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CapacitySize.html
    """

    remedy = "raise it, or min_instances"

    def find_problems(self, rollout: Rollout) -> Findings:
        percent = rollout.percent
        for name, variant in self.environment.variants.items():
            count = max(1, variant.min_instances)
            if percent * count < 100:
                least, enough = math.ceil(100 / count), math.ceil(100 / percent)
                allowed = "all_at_once" if least > 50 else "50" if least == 50 else f"{least} to 50"
                yield self.build_finding(
                    f"rollout.{SHARE[rollout.strategy]}",
                    f"{percent} % of {name}'s {format_count(count, 'instance')} is less than "
                    f"one: the first share is 1 of {count}, {100 / count:.0f} %",
                    allowed=f"{allowed}, or {enough} instances",
                    reads=(f"variants.{name}.min_instances",),
                )


class RolloutBakeUnseen(RolloutRule, severity=Severity.WARNING):
    """A share without traffic passes any bake.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html
    """

    key = "rollout.bake_minutes"
    problem = (
        "in {rollout.bake_minutes} minutes a share of {rollout.percent} % gets {seen:.0f} requests at "
        "{quiet:g}/s; error_5xx_percent needs {needed:.0f}"
    )
    remedy = "raise it or the share, deploy when there is traffic, or add [rollout.golden_requests]"
    reads = ("traffic.quiet_rps", "alarms.error_5xx_percent")

    def find_problems(self, rollout: Rollout) -> Findings:
        quiet = self.environment.traffic.quiet_rps
        golden = rollout.golden_requests.per_minute if rollout.golden_requests else 0
        if quiet is None and golden:
            quiet = 0.0  # golden requests alone must be enough, because there may be no callers
        if quiet is None:
            question = "whether an update gets enough requests to show errors"
            yield self.build_unchecked("rollout.bake_minutes", "traffic.quiet_rps", question)
            return
        needed = 100 / self.environment.alarms.error_5xx_percent
        each_minute = (quiet * SECONDS_PER_MINUTE + golden) * rollout.percent / 100
        seen = each_minute * rollout.bake_minutes
        if seen < needed:
            minutes = math.ceil(needed / each_minute)
            allowed = f"{minutes} to 60" if minutes <= 60 else "a larger share or more traffic"
            yield self.build_finding(allowed=allowed, seen=seen, quiet=quiet, needed=needed)


class RolloutP99Unseen(VariantRule, severity=Severity.WARNING):
    """A few slow requests determine the rollback alarm's p99 of a small share.

    Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/percentiles-with-low-samples.html
    (2026-11-22)
    """

    key = "alarms.p99_latency_ms"
    problem = (
        "an update's first share, {share:.0f} % of the traffic, gets {seen:,.0f} requests on "
        "{placement.name} in {window} at {quiet:g}/s, but a significant p99 needs {needed:,}"
    )
    remedy = (
        "raise the share or alarms.window_minutes, deploy when there is traffic, or acknowledge this "
        "finding"
    )
    reads = ("traffic.quiet_rps", "alarms.window_minutes")

    def find_problems(self, placement: Placement) -> Findings:
        environment, variant = self.environment, placement.variant
        rollout, quiet = environment.rollout, environment.traffic.quiet_rps
        if rollout is None or environment.alarms.p99_latency_ms is None:
            return
        if variant.shadow or not variant.weight:
            return
        if quiet is None:
            question = "whether an update gets enough requests to measure its p99"
            yield self.build_unchecked(self.key, "traffic.quiet_rps", question)
            return
        golden = rollout.golden_requests.per_minute if rollout.golden_requests else 0
        # The fewest instances run in the quietest hour; the first share is a whole number of them.
        count, window = max(1, variant.min_instances), environment.window_minutes
        (smallest,) = rollout.list_updates(least=count, most=count, window_minutes=window)
        of_variant = environment.compute_share(placement.name)
        percent = smallest.first_share_percent * (1 if of_variant is None else of_variant)
        seen = (quiet * SECONDS_PER_MINUTE + golden) * percent / 100 * window
        needed = compute_minimum_samples("p99")
        if seen < needed:
            minutes = format_count(window, "minute")
            yield self.build_finding(
                share=percent, seen=seen, window=minutes, quiet=quiet, needed=needed
            )


class RolloutRollingVariants(RolloutRule):
    """SageMaker makes rolling updates only of endpoints with one variant.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-rolling.html
    """

    key = "rollout.strategy"
    problem = "a rolling update is not possible with {count} variants"
    remedy = "choose all_at_once, canary, or linear, or keep one variant"

    def find_problems(self, rollout: Rollout) -> Findings:
        count = len(self.environment.variants)
        if rollout.strategy == "rolling" and count > 1:
            yield self.build_finding(count=count)


class RolloutLatencyUnwatched(RolloutRule, severity=Severity.WARNING):
    """Without a latency alarm an update that answers slowly is never rolled back, only one with 5xx.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html
    """

    example = 'rollout.strategy = "all_at_once"'
    key = "alarms.p99_latency_ms"
    problem = "an update is rolled back for 5xx responses, but not for slow ones"
    remedy = "set alarms.p99_latency_ms to your objective"
    reads = ("rollout",)

    def find_problems(self, rollout: Rollout) -> Findings:
        if self.environment.alarms.p99_latency_ms is None:
            yield self.build_finding()


# The target's Input contains the request in base64, and has at most 8192 characters in all.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html (Input)
MOST_BYTES = 4096


class RolloutGoldenRequest(KnownRequestRule):
    """The template contains the request, which EventBridge passes to the function that sends it.

    Source: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html
    """

    key = "rollout.golden_requests.body"

    def find_problems(self) -> Findings:
        golden = self.environment.rollout.golden_requests if self.environment.rollout else None
        if golden is None:
            return
        table, sent_as = "rollout.golden_requests", golden.request_content_type
        if self.environment.kind.queued:
            problem = "an asynchronous endpoint reads requests only from S3, but golden requests wait for "
            problem += "their responses"
            remedy, reads = f"remove [{table}]", ("asynchronous",)
            yield self.build_finding(table, problem, remedy=remedy, reads=reads)
        file = find_file(golden.body)
        if file is None:
            yield self.build_missing_file_finding(self.key, golden.body)
        elif (size := file.stat().st_size) > MOST_BYTES:
            problem, allowed = f"{golden.body} has {size} bytes", f"at most {MOST_BYTES}"
            yield self.build_finding(problem=problem, allowed=allowed, remedy="send fewer rows")
            return
        if sent_as is None:
            problem = f"the content type of {golden.body} cannot be derived from its extension"
            yield self.build_finding(f"{table}.content_type", problem, remedy="set content_type")
            return
        targets = [
            (placement, placement.variant.model)
            for placement in self.candidate.placements
            if not placement.variant.shadow and placement.model.multi_model is None
        ]
        for finding in self.check_request(self.key, golden.body, sent_as, targets):
            yield replace(finding, acknowledgeable=True)
