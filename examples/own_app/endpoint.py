"""Somebody else's CDK app: a model behind an endpoint of our constructs, without environment files.

cdk synth --app "python examples/own_app/endpoint.py", from the project's folder.
"""

from pathlib import Path

import aws_cdk as cdk

from infra.constructs.endpoint_logs import EndpointLogs
from infra.constructs.endpoint_rollout import EndpointRollout
from infra.constructs.endpoint_scaling import EndpointScaling
from infra.constructs.endpoint_variant import InstanceVariant
from infra.constructs.model_archive import ModelArchive
from infra.constructs.model_endpoint import ModelEndpoint
from infra.constructs.rollback_alarms import name_prefix
from infra.constructs.served_model import ServedModel
from infra.parameters.alarms import Alarms
from infra.parameters.rollout import Rollout
from infra.parameters.scaling import Scaling
from infra.policy.container_settings import ContainerSettings
from infra.policy.hosting import hosting
from infra.policy.served import Served
from model_packaging.inputs import ArchiveInputs
from model_packaging.places import ARCHIVES
from model_packaging.servable import Servable

RANKER = Path("examples/ranker").resolve()
NAME, TYPE, REGION = "search", "ml.c5.xlarge", "eu-west-1"

app = cdk.App()
stack = cdk.Stack(app, NAME, env=cdk.Environment(account="111111111111", region=REGION))
logs = EndpointLogs(stack, "Logs", endpoint_name=NAME, retention_days=30)
packed = ArchiveInputs(
    servables=(Servable(name="ranker", folder=RANKER / "model"),), code=RANKER / "code"
)
runs = hosting(
    instance_type=TYPE,
    tensorflow="2.20",
    region=REGION,
    container=ContainerSettings(gunicorn_workers=4),
    default_model="ranker",
    served=Served(model_gib=0.1, has_code=True),
)
model = ServedModel(
    stack,
    "Model",
    archive=ModelArchive(stack, "Archive", inputs=packed, archives=ARCHIVES.resolve()),
    image=runs.image,
    variables=runs.variables,
    log_group_arn=logs.arn,
    rollback_alarm_prefix=name_prefix(NAME),
)
primary = InstanceVariant(
    name="primary", model=model, instance_type=TYPE, min_instances=2, max_instances=6
)
endpoint = ModelEndpoint(stack, "Endpoint", name=NAME, variants=[primary])
endpoint.resource.node.add_dependency(logs)
EndpointScaling(
    stack,
    "Scaling",
    endpoint=endpoint,
    variant="primary",
    min_instances=2,
    max_instances=6,
    scaling=Scaling(max_rps_per_instance=100),
)
EndpointRollout(
    stack,
    "Rollout",
    endpoint=endpoint,
    rollout=Rollout(strategy="canary"),
    alarms=Alarms(p99_latency_ms=80),
)
app.synth()
