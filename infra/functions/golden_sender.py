"""Sends golden requests during updates. AWS Lambda runs it each minute.

The template holds this file: at most 4096 characters.
"""

import base64
import json
import time
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

ROUND_SECONDS = 55
# No retries: the alarms must see a failure.
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=60)
# Errors of the fleet; others judge no update.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html (2026-11-22)
FLEET = ("InternalDependencyException", "InternalFailure", "ModelError", "ServiceUnavailable")
# New configurations that may repair a failing live fleet. Lambda may forget them.
REPAIRS: set[str] = set()


class UnsentError(Exception):
    """The update isn't judged."""


def handler(event: dict[str, Any], context: object) -> dict[str, int]:
    """Send requests of `event`: endpoint, body (base64), content_type, per_minute."""
    runtime = boto3.client("sagemaker-runtime", config=ONCE)
    return send(event, boto3.client("sagemaker"), runtime, time.sleep)


def send(event: dict[str, Any], sagemaker: Any, runtime: Any, sleep: Any) -> dict[str, int]:
    """Send a minute's requests, then raise UnsentError if one judges nothing."""
    sent = failed = of_fleet = 0
    unsent: list[str] = []
    started = time.monotonic()
    name, body = event["endpoint"], base64.b64decode(event["body"])
    config, baking = find_update(name, sagemaker)
    judges = baking and config not in REPAIRS
    for turn in range(0 if config is None else event["per_minute"]):
        due = started + turn * ROUND_SECONDS / event["per_minute"]
        sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() > started + ROUND_SECONDS:
            break  # slow answers
        sent += 1
        before = of_fleet
        try:
            runtime.invoke_endpoint(
                EndpointName=name, Body=body, ContentType=event["content_type"]
            )["Body"].read()
        except (BotoCoreError, ClientError) as error:
            failed += 1
            code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
            of_fleet += code in FLEET or isinstance(error, ReadTimeoutError)
            if of_fleet == before or not judges:
                unsent.append(str(error))
                continue
        if judges:
            report(name, config, of_fleet - before)
    # One failure isn't an incident.
    if config and of_fleet > 1 and not baking and find_update(name, sagemaker) == (config, False):
        REPAIRS.add(config)
    if unsent:
        raise UnsentError(f"{len(unsent)} of {sent} requests gave no result: {unsent[0]}")
    return {"sent": sent, "failed": failed}


def report(endpoint: str, config: str | None, failed: int) -> None:
    """Log a value of the alarm's metric in CloudWatch's embedded metric format."""
    key, name = "EndpointConfigName", "GoldenRequestErrors"
    metrics = {
        "Namespace": f"Servable/{endpoint}",
        "Dimensions": [[key]],
        "Metrics": [{"Name": name}],
    }
    head = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [metrics]}
    print(json.dumps({"_aws": head, key: config, name: failed}))


def find_update(endpoint: str, sagemaker: Any) -> tuple[str | None, bool]:
    """Return the new configuration and whether it bakes, or None."""
    try:
        found = sagemaker.describe_endpoint(EndpointName=endpoint)
    except (BotoCoreError, ClientError) as error:
        if "Could not find endpoint" in str(error):
            return None, False
        raise UnsentError(f"cannot check whether {endpoint} is being updated: {error}") from error
    if found["EndpointStatus"] != "Updating":
        return None, False
    new = found.get("PendingDeploymentSummary", {})
    states = [s for v in new.get("ProductionVariants", []) for s in v.get("VariantStatus", [])]
    return new.get("EndpointConfigName", ""), "Baking" in [s["Status"] for s in states]
