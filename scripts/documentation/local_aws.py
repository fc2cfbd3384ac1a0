# ruff: noqa: E501 (the page has lines of its own)
"""docs/local-aws.md: the local AWS for a CDK app of anybody's, and what it answers, read from the code."""

import importlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore import xform_name

from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.cloudwatch.alarms_api import CloudWatchApi
from servable_local.aws.moto_patches.logs import LogsApi
from servable_local.aws.moto_patches.objects import S3Api
from servable_local.aws.resources.registry import TYPES
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.runtime_api import RuntimeApi
from servable_local.aws.scaling.api import ScalingApi

_HEAD = """\
# The local AWS on its own

For whoever has a CDK app, or code for boto3 or the AWS CLI, and wants to try it without an account: the local AWS is a
program on 127.0.0.1 that the real CDK CLI deploys to. It needs no Docker and no network, and nothing of Servable's
commands. This page is written by `python scripts/generate.py`; its table is read from the code.

    pip install 'servable-local[run]'              # how to get the wheels: installing.md
    eval "$(servable-local up)"                    # in the app's folder; cdk, boto3 and aws now speak to it
    cdk bootstrap aws://123456789012/us-east-1     # once per `up`
    cdk deploy
    aws sagemaker list-endpoints
    servable-local status                          # where it is; --json for programs
    servable-local down                            # ends it with all its endpoints; everything deployed is gone

The wheels are not on PyPI: [installing](installing.md) says how to build them. Without `[run]`, which is TensorFlow and 2 GB,
it takes 190 MB, and everything but SageMaker endpoints works; an endpoint fails with a reason that says what to install.

`up` returns when requests are answered, about a second after it was called, and takes about 80 MB of memory
(`make bench-local` measures both: [performance](performance.md)). It prints the variables that lead clients to it; the
account is 123456789012, or any other of twelve digits that is the access key. State and logs are in `.servable` of
the folder, readable by you only. A minute of alarms, scaling and deployments can last 2 s: `servable-local up --minute 2`.

An app needs no change. It needs an account and a region that it can be deployed to:

```python
cdk.Stack(app, "search", env=cdk.Environment(account="123456789012", region="us-east-1"))
```

`tests/wheels/other_app/app.py` is such an app: a bucket, a topic, an alarm and an autoscaled SageMaker endpoint with a plain
model, deployed by `tests/wheels/test_other_app.py`. In a test of yours, from Python:

```python
from servable_local.aws import running

with running(seconds_per_minute=None) as aws:      # ends with the block, or with the process
    subprocess.run(["cdk", "deploy"], env=aws.environment_over(os.environ), check=True)
    aws.client("sns").list_topics()
    aws.advance(minutes=5)                         # what is due in five minutes has happened
```

## What it does

*Acts*: our own code carries the operation out, with consequences: endpoints answer, alarms go off, capacities change.
*Kept*: moto (5.2.5) answers; what is made can be asked for and changed, and permissions are not checked.
Any other operation is answered 501 with its name. A resource type that is not listed is a CREATE_FAILED that names it.

| service | resource types in templates | operations that act | kept, of AWS's |
|---|---|---|---:|
"""
_TAIL = """
S3 keeps objects of more than 64 KiB in files and sends them from there: models of gigabytes are no matter of memory.
Objects can be versioned, tagged, copied, uploaded in parts and read by ranges; requests can have conditions and
checksums. A checksum that a client states is kept and not compared.

## What it does not

[What is not emulated](local.md#what-is-not-emulated) lists the differences, service by service. The most important:

- IAM's policies are not evaluated. Only the owner of the run's secret gets in: [who is let in](local.md#who-is-let-in).
- Functions are kept, and nothing runs them: no custom resources, so no `auto_delete_objects` and no bucket notifications
  by CDK. Buckets must be empty to be deleted.
- No EC2, ECS, API Gateway, DynamoDB, Step Functions or VPC resources in templates.
- All is in one process: `down` forgets it.
"""
# Service of boto3 -> its class of ours, or the module and the class of moto's.
_APIS: dict[str, Any] = {
    "application-autoscaling": ScalingApi,
    "cloudformation": CloudFormationApi,
    "cloudwatch": CloudWatchApi,
    "ecr": "ecr.ECRResponse",
    "events": "events.EventsHandler",
    "iam": "iam.IamResponse",
    "kms": "kms.KmsResponse",
    "lambda": "awslambda.LambdaResponse",
    "logs": LogsApi,
    "s3": S3Api,
    "sagemaker": SageMakerApi,
    "sagemaker-runtime": RuntimeApi,
    "sns": "sns.SNSResponse",
    "sqs": "sqs.SQSResponse",
    "ssm": "ssm.SimpleSystemManagerResponse",
    "sts": "sts.TokenResponse",
}
# CDK's own: no service has it.
_NO_SERVICES = {"AWS::CDK::Metadata"}
# Service in the name of a resource type, where boto3 has another.
_OF_TYPES = {"applicationautoscaling": "application-autoscaling"}


def markdown() -> str:
    """The page."""
    return _HEAD + "\n".join(_rows()) + "\n" + _TAIL


def _rows() -> Iterator[str]:
    session = botocore.session.Session()
    types = defaultdict(list)
    for kind in sorted(one for one in TYPES if one.startswith("AWS::") and one not in _NO_SERVICES):
        _, service, name = kind.split("::")
        types[_OF_TYPES.get(service.lower(), service.lower())].append(name)
    for service, api in _APIS.items():
        names = session.get_service_model(service).operation_names
        answered = [name for name in names if hasattr(_class(api), xform_name(name))]
        acting = [name for name in answered if _is_ours(_class(api), xform_name(name))]
        kept = f"{len(answered) - len(acting)} of {len(names)}"
        cells = (service, ", ".join(types.pop(service, [])), ", ".join(acting), kept)
        yield f"| {' | '.join(cells)} |"
    if types:
        raise ValueError(f"no API of {', '.join(types)} is listed, whose resource types are there")


def _class(api: Any) -> Any:
    if not isinstance(api, str):
        return api
    module, _, name = api.partition(".")
    return getattr(importlib.import_module(f"moto.{module}.responses"), name)


def _is_ours(api: Any, method: str) -> bool:
    return any(method in vars(one) for one in api.__mro__ if one.__module__.startswith("servable"))
