"""The state machine of a batch, in the Amazon States Language: one job, and what it reports."""

from typing import Any

import aws_cdk as cdk

from infra.constructs.monitoring.first_steps import FIRST_STEPS
from infra.parameters.batch.job import BatchJob
from infra.policy.update import SECONDS_PER_MINUTE

SERVICES = f"arn:{cdk.Aws.PARTITION}:states:::"
# A job that completed ends the branch that waits to report it as late with this error. A Parallel state ends
# when a branch fails, with that branch's error, and stops the others:
# https://docs.aws.amazon.com/step-functions/latest/dg/state-parallel.html (2026-11-28)
COMPLETED = "BatchCompleted"
CAUGHT = {"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure"}
# Errors of the API, not of a job that ran, which would only fail again, at full price. A job's name is unique
# to its run, so that a job that was started despite the error isn't started twice.
RETRY = {
    "ErrorEquals": [
        "SageMaker.AmazonSageMakerException",
        "SageMaker.ResourceLimitExceededException",
        "SageMaker.ThrottlingException",
    ],
    "IntervalSeconds": 60,
    "MaxAttempts": 4,
    "BackoffRate": 2,
}


def build_definition(
    name: str, job: BatchJob, *, job_prefix: str, model_name: str, topic_arn: str
) -> dict[str, Any]:
    """Return the state machine that runs a job. `job_prefix` is the beginning of the jobs' names."""
    minutes = job.batch.late_minutes
    failed = (
        f"The batch {name} failed with {{}}: {{}} First: read the end of its data-log in the "
        "log group /aws/sagemaker/TransformJobs."
    )
    late = (
        f"The batch {name} is late: its job {job_prefix}-{{}} is still running {minutes} minutes "
        f"after the run began. First: {FIRST_STEPS['batch-late']}"
    )
    tell = _build_publish_task(
        topic_arn,
        f"Batch {name} failed",
        f"States.Format('{failed}', $.failure.Error, $.failure.Cause)",
        after="Failed",
    )
    tell_late = _build_publish_task(
        topic_arn, f"Batch {name} is late", f"States.Format('{late}', $.run)", after="Told"
    )
    late_states = {
        "Wait": {"Type": "Wait", "Seconds": minutes * SECONDS_PER_MINUTE, "Next": "TellLate"},
        "TellLate": tell_late,
        "Told": {"Type": "Succeed"},
    }
    transform_states = _build_transform_states(job, job_prefix, model_name)
    completed = {"ErrorEquals": [COMPLETED], "ResultPath": "$.result", "Next": "Succeeded"}
    return {
        "Comment": f"Runs the model {job.batch.model} over {job.batch.input}",
        "StartAt": "Name",
        "States": {
            "Name": {"Type": "Pass", "Parameters": {"run.$": "States.UUID()"}, "Next": "Run"},
            "Run": {
                "Type": "Parallel",
                "Branches": [
                    {"StartAt": "Transform", "States": transform_states},
                    {"StartAt": "Wait", "States": late_states},
                ],
                "Catch": [completed, {**CAUGHT, "Next": "Tell"}],
                "Next": "Succeeded",
            },
            "Succeeded": {"Type": "Succeed"},
            "Tell": tell,
            "Failed": {
                "Type": "Fail",
                "Error": "BatchFailed",
                "Cause": "The state Transform failed; see the execution history for its error and cause.",
            },
        },
    }


def _build_transform_states(job: BatchJob, job_prefix: str, model_name: str) -> dict[str, Any]:
    """Return the states that run the job.

    CDK's own task has neither filters nor joins, doesn't retry requests, and waits 60 s for one:
    create-transform-job.ts of https://github.com/aws/aws-cdk (2026)
    """
    request = job.build_request(job_name="", model_name=model_name)
    request["TransformJobName.$"] = f"States.Format('{job_prefix}-{{}}', $.run)"
    del request["TransformJobName"]
    return {
        "Transform": {
            "Type": "Task",
            "Resource": f"{SERVICES}sagemaker:createTransformJob.sync",
            "Parameters": request,
            "TimeoutSeconds": job.batch.max_minutes * SECONDS_PER_MINUTE,
            "Retry": [RETRY],
            "Next": "Completed",
        },
        "Completed": {"Type": "Fail", "Error": COMPLETED, "Cause": "The job completed."},
    }


def _build_publish_task(topic_arn: str, subject: str, text: str, *, after: str) -> dict[str, Any]:
    """Return the task that publishes a message, whose `text` is an expression.

    The run continues `after` it even if the message can't be sent.
    """
    return {
        "Type": "Task",
        "Resource": f"{SERVICES}sns:publish",
        "Parameters": {"TopicArn": topic_arn, "Subject": subject, "Message.$": text},
        "Catch": [{**CAUGHT, "Next": after}],
        "Next": after,
    }
