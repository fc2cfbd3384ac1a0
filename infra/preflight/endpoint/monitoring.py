"""Rules about the alarms' thresholds and subscribers, and about how often metrics are published."""

import re

from infra.parameters.finding import Severity
from infra.parameters.monitoring import PERCENTILE_KEYS
from infra.preflight.rule import Findings, Rule


class AlarmAboveCaller(Rule, severity=Severity.WARNING):
    """With a threshold above the callers' timeout the alarm stays OK while every caller times out.

    Source: https://sre.google/sre-book/monitoring-distributed-systems/
    """

    key = "alarms.{name}"
    problem = "{name} {alarm:g} is not below the callers' timeout of {caller:g} ms"
    remedy = "lower it to your latency objective"
    reads = ("traffic.caller_timeout_ms",)

    def find_problems(self) -> Findings:
        caller = self.environment.traffic.caller_timeout_ms
        for name in PERCENTILE_KEYS:
            alarm = getattr(self.environment.alarms, name)
            if alarm is not None and caller is None:
                question = "whether the latency alarm fires before callers time out"
                yield self.build_unchecked(f"alarms.{name}", "traffic.caller_timeout_ms", question)
            elif alarm is not None and alarm >= caller:
                yield self.build_finding(name=name, alarm=alarm, caller=caller)


class AlarmInSeconds(Rule, severity=Severity.WARNING):
    """ModelLatency includes the network: no request takes less than a millisecond."""

    key = "alarms.{name}"
    example = "alarms.p99_latency_ms = 0.08"
    problem = "{name} {alarm:g} is less than any request takes, so the alarm stays on"
    remedy = "state it in milliseconds: {milliseconds}"

    def find_problems(self) -> Findings:
        for name in PERCENTILE_KEYS:
            alarm = getattr(self.environment.alarms, name)
            if alarm is not None and alarm < 1:
                yield self.build_finding(name=name, alarm=alarm, milliseconds=f"{alarm * 1000:g}")


class AlarmsAddressTwice(Rule):
    """A topic has one subscription for each address; a second one would make the synthesis fail."""

    example = 'alarms.notify = ["a@example.com", "a@example.com"]'
    problem = "{address} is listed more than once"
    remedy = "remove the others"

    def find_problems(self) -> Findings:
        for key in ("notify", "page"):
            addresses = getattr(self.environment.alarms, key)
            for address in sorted(each for each in set(addresses) if addresses.count(each) > 1):
                yield self.build_finding(f"alarms.{key}", given=address, address=address)


class AlarmsRunbookUnreachable(Rule, severity=Severity.WARNING):
    """Every alarm's e-mail links to the runbook, and a path in the repository can't be opened from there.

    Source: https://sre.google/sre-book/being-on-call/
    """

    key = "alarms.runbook"
    problem = "{runbook} cannot be opened from an alarm's e-mail, and this is production"
    remedy = "write the https address of the page where your copy of docs/runbook.md is read"
    reads = ("production", "alarms.notify", "alarms.page")

    def find_problems(self) -> Findings:
        alarms = self.environment.alarms
        on_call = bool(alarms.notify or alarms.page) and self.candidate.needs_redundancy
        if on_call and not alarms.runbook.startswith(("https://", "http://")):
            yield self.build_finding(given=alarms.runbook, runbook=alarms.runbook)


# Incoming webhooks, which take messages of their own form. PagerDuty's, Opsgenie's and Datadog's addresses
# for SNS confirm a subscription. https://docs.aws.amazon.com/sns/latest/dg/sns-http-https-endpoint-as-subscriber.html
_WEBHOOKS = re.compile(
    r"https://(hooks\.slack(-gov)?\.com/|[^/]*\.?discord(app)?\.com/api/webhooks/|chat\.googleapis\.com/"
    r"|[^/]*\.webhook\.office\.com/|outlook\.office(365)?\.com/webhook/|[^/]*\.logic\.azure\.com[:/]"
    r"|[^/]*\.environment\.api\.powerplatform\.com[:/]|api\.telegram\.org/|open\.(feishu\.cn|larksuite\.com)/"
    r"|events(\.eu)?\.pagerduty\.com/v2/)",
    re.IGNORECASE,
)


class AlarmsWebhook(Rule, severity=Severity.WARNING):
    """A chat's incoming webhook never confirms SNS's subscription: messages are lost without an error.

    Source: https://docs.aws.amazon.com/sns/latest/dg/sns-http-https-endpoint-as-subscriber.html (the endpoint
    must answer SubscriptionConfirmation); https://docs.aws.amazon.com/chatbot/latest/adminguide/what-is.html
    """

    problem = (
        "{host} is a chat webhook, which never confirms an SNS subscription: nobody is notified"
    )
    remedy = (
        "write the channel's e-mail address, or subscribe Amazon Q Developer in chat to the topic"
    )

    def find_problems(self) -> Findings:
        for key in ("notify", "page"):
            for address in filter(_WEBHOOKS.match, getattr(self.environment.alarms, key)):
                host = address.split("/")[2]  # the path is the webhook's password
                yield self.build_finding(f"alarms.{key}", given=host, host=host)


# Target tracking evaluates metrics at one minute:
# https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html
# (2026-11-22)
PERIOD_SECONDS = 60


class MetricsTooRare(Rule, severity=Severity.WARNING):
    """An alarm needs at least one value per period, and target tracking one every minute.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html
    (MetricPublishFrequencyInSeconds, read 2026-11-22)
    """

    example = "metrics.publish_seconds = 120"
    key = "metrics.publish_seconds"
    problem = "with a value every {seconds} s, {effect}an alarm fires minutes later"
    allowed = f"10, 30 or {PERIOD_SECONDS}"
    remedy = "lower it"
    reads = ("metrics.enhanced_metrics",)

    def find_problems(self) -> Findings:
        metrics, tables = self.environment.metrics, self.environment.scaling_tables.values()
        requests = metrics.find_intervals(self.environment.kind).requests_seconds
        tracked = requests > PERIOD_SECONDS and any(one.max_rps_per_instance for one in tables)
        if metrics.publish_seconds > PERIOD_SECONDS:
            effect = "target tracking sees minutes without one, and " if tracked else ""
            yield self.build_finding(seconds=metrics.publish_seconds, effect=effect)
