"""A Lambda function that asks an endpoint: the event is the request, and the answer is returned."""

import json
import os
from typing import Any

import boto3

runtime = boto3.client("sagemaker-runtime")


def handler(event: dict[str, Any], context: object) -> Any:
    answer = runtime.invoke_endpoint(
        EndpointName=os.environ["RANKING"],
        ContentType="application/json",
        Body=json.dumps(event),
    )
    return json.loads(answer["Body"].read())
