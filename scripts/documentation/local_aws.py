"""The table of docs/local-aws.md: what the local AWS answers, read from the code."""

import importlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore import xform_name

from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.cloudwatch.api import CloudWatchApi
from servable_local.aws.moto_patches.every_service import without_effect
from servable_local.aws.moto_patches.logs import LogsApi
from servable_local.aws.moto_patches.s3 import S3Api
from servable_local.aws.resources import TYPES
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.runtime_api import RuntimeApi
from servable_local.aws.scaling.api import ScalingApi
from servable_local.aws.workflows.executions import StateMachinesApi
from servable_local.aws.workflows.schedules import SchedulerApi

# Service of boto3 -> its class of ours, or the module and the class of moto's.
_APIS: dict[str, Any] = {
    "application-autoscaling": ScalingApi,
    "cloudformation": CloudFormationApi,
    "cloudwatch": CloudWatchApi,
    "ec2": "ec2.EC2Response",
    "ecr": "ecr.ECRResponse",
    "events": "events.EventsHandler",
    "iam": "iam.IamResponse",
    "kms": "kms.KmsResponse",
    "lambda": "awslambda.LambdaResponse",
    "logs": LogsApi,
    "s3": S3Api,
    "scheduler": SchedulerApi,
    "sagemaker": SageMakerApi,
    "sagemaker-runtime": RuntimeApi,
    "sns": "sns.SNSResponse",
    "sqs": "sqs.SQSResponse",
    "stepfunctions": StateMachinesApi,
    "ssm": "ssm.SimpleSystemManagerResponse",
    "sts": "sts.TokenResponse",
}
# CDK's own: no service has it.
_NO_SERVICES = {"AWS::CDK::Metadata"}
# Service in the name of a resource type, where boto3 has another.
_OF_TYPES = {"applicationautoscaling": "application-autoscaling"}


def rows() -> Iterator[tuple[str, ...]]:
    """Cells for each service. Raises `ValueError` where a resource type's service is not listed."""
    session = botocore.session.Session()
    types = defaultdict(list)
    for kind in sorted(one for one in TYPES if one.startswith("AWS::") and one not in _NO_SERVICES):
        _, service, name = kind.split("::")
        types[_OF_TYPES.get(service.lower(), service.lower())].append(name)
    for service, api in _APIS.items():
        if isinstance(api, str):
            module, _, name = api.partition(".")
            api = getattr(importlib.import_module(f"moto.{module}.responses"), name)
        names = session.get_service_model(service).operation_names
        of_moto = "awslambda" if service == "lambda" else service
        answered = [
            name
            for name in names
            if hasattr(api, xform_name(name)) and not without_effect(of_moto, name, api)
        ]
        ours = [vars(base) for base in api.__mro__ if base.__module__.startswith("servable")]
        acting = [name for name in answered if any(xform_name(name) in base for base in ours)]
        kept = f"{len(answered) - len(acting)} of {len(names)}"
        yield service, ", ".join(types.pop(service, [])), ", ".join(acting), kept
    if types:
        raise ValueError(f"no API of {', '.join(types)} is listed, whose resource types are there")
