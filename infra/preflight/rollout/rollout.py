"""Rules about an update's shares of traffic, its duration, and the alarms and requests that watch it."""

import math
from dataclasses import replace

from infra.catalog.limits import find_maximum
from infra.catalog.metrics import compute_minimum_samples
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.rollout import MOST_ALARMS, SHARE, Rollout
from infra.policy.sizing import estimate_start_seconds
from infra.policy.update import LONGEST
from infra.preflight.model.known_requests import KnownRequestRule
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
        "{window} can fire"
    )
    remedy = "raise bake_minutes, or lower alarms.window_minutes"
    reads = ("alarms.window_minutes",)

    def check_part(self, rollout: Rollout) -> Findings:
        window = self.environment.window_minutes
        if rollout.bake_minutes <= window:
            yield self.build_finding(rollout=rollout, window=window)


class RolloutTooManyAlarms(RolloutRule):
    """SageMaker watches an update with at most ten alarms; 5xx and p99 of every variant come first.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html
    """

    allowed = f"at most {MOST_ALARMS}"
    remedy = "remove variants, or [rollout]"

    def check_part(self, rollout: Rollout) -> Findings:
        each = 1 if self.environment.alarms.p99_latency_ms is None else 2
        count = each * len(self.environment.production_variants)
        if count > MOST_ALARMS:
            yield self.build_finding(
                "rollout.strategy",
                f"{rollout.strategy}: {len(self.environment.production_variants)} variants with "
                f"{each} rollback alarm{'s' if each > 1 else ''} each make {count}",
            )


class RolloutAlarmLeftOut(RolloutRule):
    """SageMaker accepts only ten alarms: the thresholds beyond them don't roll an update back.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html
    """

    severity = Severity.WARNING
    remedy = "set rollout.rollback_on_4xx = false, remove variants, or acknowledge this finding"
    reads = ("rollout.rollback_on_4xx", "alarms.error_4xx_percent", "alarms.model_error_percent")

    def check_part(self, rollout: Rollout) -> Findings:
        variants = list(self.environment.production_variants)
        watched = rollout.list_rollback_alarms(
            self.environment.alarms, variants=variants, kind=self.environment.kind
        )
        left_out = [name for name in watched[MOST_ALARMS:] if name[1] not in ("5xx", "latency")]
        if left_out:
            yield self.build_finding(
                "rollout.strategy",
                f"{rollout.strategy}: {len(watched)} rollback alarms are configured; not among "
                f"the first {MOST_ALARMS}: "
                + ", ".join("-".join(filter(None, name)) for name in left_out),
            )


class RolloutTooLong(VariantRule):
    """SageMaker rolls back an update that has not finished after eight hours, bakes included.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BlueGreenUpdatePolicy.html
    (MaximumExecutionTimeoutInSeconds)
    """

    remedy = "bake shorter, or in fewer steps"

    def check_part(self, placement: Placement) -> Findings:
        rollout, variant = self.environment.rollout, placement.variant
        if rollout is None:
            return
        estimated = estimate_start_seconds(placement.served, processes=placement.processes) or 0
        possible = rollout.list_updates(
            least=variant.min_instances,
            most=variant.instance_limit,
            window_minutes=self.environment.window_minutes,
        )
        start = variant.start_seconds or estimated  # unknown is 0: bakes may be too long alone
        lengths = [(update.estimate_seconds(start) or 0, update.instances) for update in possible]
        seconds, count = max(lengths, default=(0, 0))
        if seconds > find_maximum(LONGEST):
            yield self.build_finding(
                "rollout.bake_minutes",
                f"with bakes of {rollout.bake_minutes} minutes and {count} instances of "
                f"{placement.name} an update takes {seconds / 3600:.1f} hours",
                allowed=f"at most {find_maximum(LONGEST) // 3600} hours",
                reads=(placement.build_key("min_instances"), placement.build_key("max_instances")),
            )


class RolloutShareBelowInstance(RolloutRule):
    """Shares are whole instances: a tenth of two instances is one of two, and gets half of the traffic.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CapacitySize.html
    """

    severity = Severity.WARNING
    remedy = "raise it, or min_instances"

    def check_part(self, rollout: Rollout) -> Findings:
        percent = rollout.percent
        for name, variant in self.environment.variants.items():
            count = max(1, variant.min_instances)
            if percent * count < 100:
                least = math.ceil(100 / count)
                allowed = "all_at_once" if least > 50 else "50" if least == 50 else f"{least} to 50"
                yield self.build_finding(
                    f"rollout.{SHARE[rollout.strategy]}",
                    f"{percent} % of {name}'s {format_count(count, 'instance')} is less than "
                    f"one: the first share is 1 of {count}, {100 / count:.0f} %",
                    allowed=f"{allowed}, or {math.ceil(100 / percent)} instances",
                    reads=(f"variants.{name}.min_instances",),
                )


class RolloutBakeUnseen(RolloutRule):
    """A share without traffic passes any bake.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html
    """

    severity = Severity.WARNING
    remedy = "raise it or the share, deploy when there is traffic, or add [rollout.golden_requests]"
    reads = ("traffic.quiet_rps", "alarms.error_5xx_percent")

    def check_part(self, rollout: Rollout) -> Findings:
        quiet = self.environment.traffic.quiet_rps
        if quiet is None and rollout.golden_requests is not None:
            quiet = 0.0  # golden requests alone must be enough, because there may be no callers
        if quiet is None:
            question = "whether an update gets enough requests to show errors"
            yield self.build_unchecked("rollout.bake_minutes", "traffic.quiet_rps", question)
            return
        percent, needed = rollout.percent, 100 / self.environment.alarms.error_5xx_percent
        golden = rollout.golden_requests.per_minute if rollout.golden_requests else 0
        each_minute = (quiet * SECONDS_PER_MINUTE + golden) * percent / 100
        seen = each_minute * rollout.bake_minutes
        if seen < needed:
            minutes = math.ceil(needed / each_minute)
            yield self.build_finding(
                "rollout.bake_minutes",
                f"in {rollout.bake_minutes} minutes a share of {percent} % gets {seen:.0f} requests at "
                f"{quiet:g}/s; error_5xx_percent needs {needed:.0f}",
                allowed=f"{minutes} to 60" if minutes <= 60 else "a larger share or more traffic",
            )


class RolloutP99Unseen(VariantRule):
    """A few slow requests determine the rollback alarm's p99 of a small share.

    Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/percentiles-with-low-samples.html
    (2026-11-22)
    """

    severity = Severity.WARNING

    def check_part(self, placement: Placement) -> Findings:
        rollout, variant = self.environment.rollout, placement.variant
        alarms = self.environment.alarms
        if rollout is None or alarms.p99_latency_ms is None or variant.shadow or not variant.weight:
            return
        quiet = self.environment.traffic.quiet_rps
        if quiet is None:
            question = "whether an update gets enough requests to measure its p99"
            yield self.build_unchecked("alarms.p99_latency_ms", "traffic.quiet_rps", question)
            return
        golden = rollout.golden_requests.per_minute if rollout.golden_requests else 0
        # The fewest instances run in the quietest hour; the first share is a whole number of them.
        count = max(1, variant.min_instances)
        window, share = (
            self.environment.window_minutes,
            self.environment.compute_share(placement.name),
        )
        (smallest,) = rollout.list_updates(least=count, most=count, window_minutes=window)
        share = smallest.first_share_percent / 100 * (1 if share is None else share)
        each_minute = (quiet * SECONDS_PER_MINUTE + golden) * share
        seen, needed = each_minute * window, compute_minimum_samples("p99")
        if seen < needed:
            yield self.build_finding(
                "alarms.p99_latency_ms",
                f"an update's first share, {100 * share:.0f} % of the traffic, gets {seen:,.0f} requests "
                f"on {placement.name} in {format_count(window, 'minute')} at {quiet:g}/s, but p99 "
                f"is significant only from {needed:,} on",
                remedy="raise the share or alarms.window_minutes, deploy when there is traffic, or "
                "acknowledge this finding",
                reads=("traffic.quiet_rps", "alarms.window_minutes"),
            )


class RolloutRollingVariants(RolloutRule):
    """SageMaker makes rolling updates only of endpoints with one variant.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-rolling.html
    """

    key = "rollout.strategy"
    problem = "a rolling update is not possible with {count} variants"
    remedy = "choose one of those"

    def check_part(self, rollout: Rollout) -> Findings:
        count = len(self.environment.variants)
        if rollout.strategy == "rolling" and count > 1:
            yield self.build_finding(count=count)


class RolloutLatencyUnwatched(RolloutRule):
    """Without a latency alarm an update that answers slowly is never rolled back, only one with 5xx.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html
    """

    severity = Severity.WARNING
    example = 'rollout.strategy = "all_at_once"'
    key = "alarms.p99_latency_ms"
    problem = "an update is rolled back for 5xx answers, but never for slow ones"
    remedy = "set alarms.p99_latency_ms to your objective"
    reads = ("rollout",)

    def check_part(self, rollout: Rollout) -> Findings:
        if self.environment.alarms.p99_latency_ms is None:
            yield self.build_finding()


# The target's Input holds the request in base64, and has at most 8192 characters in all.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html (Input)
MOST_BYTES = 4096
KEY = "rollout.golden_requests.body"


class RolloutGoldenRequest(KnownRequestRule):
    """The template holds the request, which EventBridge passes to the function that sends it.

    Source: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html
    """

    def check_part(self) -> Findings:
        golden = self.environment.rollout.golden_requests if self.environment.rollout else None
        if golden is None:
            return
        if self.environment.kind.queued:
            yield self.build_finding(
                "rollout.golden_requests",
                "an asynchronous endpoint takes requests only from S3, but golden requests wait for "
                "their answers",
                remedy="take [rollout.golden_requests] out",
                reads=("asynchronous",),
            )
        file = self.find_file(golden.body)
        if file is None:
            yield self.build_missing_file(KEY, golden.body)
        elif (size := file.stat().st_size) > MOST_BYTES:
            yield self.build_finding(
                KEY,
                f"{golden.body} has {size} bytes",
                allowed=f"at most {MOST_BYTES}",
                remedy="send fewer rows",
            )
            return
        if golden.request_content_type is None:
            yield self.build_finding(
                "rollout.golden_requests.content_type",
                f"the content type of {golden.body} cannot be derived from its extension",
                given=golden.body,
                remedy="set content_type",
            )
            return
        targets = [
            (placement, placement.variant.model)
            for placement in self.candidate.placements
            if not placement.variant.shadow and placement.model.multi_model is None
        ]
        for finding in self.check_request(KEY, golden.body, golden.request_content_type, targets):
            yield replace(finding, acknowledgeable=True)
