"""The first step for each alarm, for its description: it must help without opening a file.

docs/runbook.md has the other steps, in a section for each of these names.
"""

from infra.parameters.monitoring import PERCENTILES

# CloudWatch takes no longer description, of an alarm or of a composite one.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html (2026-11-24)
LONGEST_DESCRIPTION = 1024
_LATENCY = (
    "see whether a deployment just began, which [rollout] rolls back by itself; otherwise check the "
    "alarm cpu and the log."
)
_FULL = "if at-max is in ALARM too, raise max_instances; otherwise scaling adds instances within minutes."
FIRST_STEPS = {
    "objective": "see whether a deployment just began, which [rollout] rolls back by itself; without it "
    "deploy the last good commit again. The dashboard's top row shows which alarm it is.",
    **dict.fromkeys(PERCENTILES, _LATENCY),
    "overhead-latency": "check the alarm cpu; see whether bodies grew or instances were just added.",
    "4xx": "find the status in the log's access lines; find out what a caller or deployment changed.",
    "5xx": "read the log's last errors. After a deployment: `servable history --restore`, then deploy.",
    "model-errors": "see whether 4xx or 5xx are in ALARM; if not, containers crash during requests.",
    "cpu": _FULL,
    "memory": "look for SIGKILL in the log; deploy fewer processes and workers, or a larger type.",
    "disk": "deploy any change of the container's settings, which replaces the instance.",
    "gpu": _FULL,
    "gpu-memory": "deploy fewer processes, or a larger type, before one fails to get memory.",
    "no-traffic": "run `servable invoke`. If the endpoint responds, contact the callers.",
    "at-max": "raise max_instances if the traffic is intended; the account's quota must allow it.",
    "queue-age": "raise max_instances if the backlog grows; if it doesn't change, read the log.",
    "failed-requests": "read the log; the failures are in the bucket under failures/. Send them again.",
    "expired-requests": "raise max_instances, or read the log if instances don't respond.",
    "failed-notifications": "responses are in the bucket. `servable verify` shows what was changed.",
    "queue-refused": "if cpu is in ALARM too, raise max_instances; otherwise raise max_enqueued_batches.",
    "batch-failed": "read the other message to this topic: it has the job's name and the reason.",
    "batch-late": "see whether the input grew; more instances help only if it has several objects.",
    "batch-unstarted": "start it by hand: aws stepfunctions start-execution; then `servable verify`.",
    "golden-requests": "postpone updates, or invoke the endpoint while one runs.",
    "rollback": "nothing is urgent: SageMaker rolls back by itself. Fix the model, then "
    "deploy again.",
}


def describe_first_step(kind: str, runbook: str) -> str:
    """Return the end of an alarm's description: the first step and the runbook's address.

    `runbook` is the address of the runbook's page.
    """
    return f"First: {FIRST_STEPS[kind]} Runbook: {runbook}#{kind}"
