"""Somebody else's CDK app: alarms and a dashboard for an endpoint that is not ours.

cdk synth --app "python examples/own_app/watch.py", from the project's folder.
"""

import aws_cdk as cdk
from aws_cdk import aws_sns as sns

from servable.constructs import Endpoint, WatchedVariant

app = cdk.App()
stack = cdk.Stack(app, "search-watch")
topic = sns.Topic(stack, "Topic", enforce_ssl=True)
search = Endpoint.from_endpoint_attributes(
    stack,
    "Search",
    endpoint_name="search",
    variants=[WatchedVariant(name="AllTraffic", instance_type="ml.c5.xlarge", max_instances=4)],
)
search.add_alarms(p99_latency_ms=80, notify=topic)
search.add_dashboard()
app.synth()
