"""Somebody else's CDK app: a model behind an endpoint of our constructs, without environment files.

cdk synth --app "python examples/own_app/endpoint.py", from the project's folder.
"""

from pathlib import Path

import aws_cdk as cdk

from servable.constructs import (
    Alarms,
    EndpointLogs,
    EndpointRollout,
    EndpointScaling,
    InstanceVariant,
    ModelEndpoint,
    Rollout,
    Scaling,
    packed_model,
)

RANKER = Path("examples/ranker")
TYPE = "ml.c5.xlarge"

app = cdk.App()
stack = cdk.Stack(app, "search", env=cdk.Environment(account="111111111111", region="eu-west-1"))
logs = EndpointLogs(stack, "Logs", endpoint_name="search")
model = packed_model(
    stack,
    "Model",
    name="ranker",
    folder=RANKER / "model",
    code=RANKER / "code",
    instance_type=TYPE,
    logs=logs,
)
two_to_six = InstanceVariant(name="primary", model=model, min_instances=2, max_instances=6)
endpoint = ModelEndpoint(stack, "Endpoint", name="search", variants=[two_to_six], logs=logs)
carries = Scaling(max_rps_per_instance=100)
EndpointScaling(stack, "Scaling", endpoint=endpoint, variant="primary", scaling=carries)
canary = Rollout(strategy="canary")
slow = Alarms(p99_latency_ms=80)
EndpointRollout(stack, "Rollout", endpoint=endpoint, rollout=canary, alarms=slow)
app.synth()
