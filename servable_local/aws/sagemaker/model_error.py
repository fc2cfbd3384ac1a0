"""ModelError: how SageMaker passes on that a container did not answer 2xx."""

import json

from moto.core.common_types import TYPE_RESPONSE

from servable_local.aws.loopback import Loopback


def model_error(aws: Loopback, endpoint: str, status: int, answer: bytes) -> TYPE_RESPONSE:
    """`status` 0 where no answer came, as SageMaker says it."""
    said = answer.decode("utf-8", "replace")
    who = "client" if 400 <= status < 500 else "server"
    group = f"/aws/sagemaker/Endpoints/{endpoint}"
    error = {
        "Message": (
            f'Received {who} error ({status}) from primary with message "{said}". See '
            f"https://{aws.region}.console.aws.amazon.com/cloudwatch/home?region={aws.region}"
            f"#logEventViewer:group={group} in account {aws.account} for more information."
        ),
        "OriginalStatusCode": status,
        "OriginalMessage": said,
        "LogStreamArn": f"arn:aws:logs:{aws.region}:{aws.account}:log-group:{group}",
    }
    headers = {
        "status": 424,
        "Content-Type": "application/json",
        "x-amzn-ErrorType": "ModelError",
    }
    return 424, headers, json.dumps(error)
