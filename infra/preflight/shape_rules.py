"""What the shape of a file makes impossible: faults that need no rule, because no file can hold them.

For docs/rules.md; each has a row in tests/preflight/test_shape_rules.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ShapeRule:
    fault: str
    example: str
    """Lines over a valid file that are refused."""
    source: str


_TRAFFIC_ROUTING = "infra/catalog/documented_limits.json (API_TrafficRoutingConfig)"
_IMAGE = "serve.py of the image: the container hangs"
_ENDPOINT = "infra/catalog/limits.json, EndpointName"

SHAPE_RULES = (
    ShapeRule(
        "a canary over 50 %",
        'rollout = { strategy = "canary", canary_percent = 51 }',
        _TRAFFIC_ROUTING,
    ),
    ShapeRule(
        "a linear step under 10 %",
        'rollout = { strategy = "linear", step_percent = 9 }',
        _TRAFFIC_ROUTING,
    ),
    ShapeRule(
        "a linear step over 50 %",
        'rollout = { strategy = "linear", step_percent = 51 }',
        _TRAFFIC_ROUTING,
    ),
    ShapeRule(
        "a rolling batch under 5 %",
        'rollout = { strategy = "rolling", batch_percent = 4 }',
        "infra/catalog/documented_limits.json (API_RollingUpdatePolicy)",
    ),
    ShapeRule(
        "a bake over an hour",
        'rollout = { strategy = "canary", bake_minutes = 61 }',
        "infra/catalog/limits.json, WaitIntervalInSeconds",
    ),
    ShapeRule("no model server", "variants.primary.container.tfs_processes = 0", _IMAGE),
    ShapeRule("no worker", "variants.primary.container.gunicorn_workers = 0", _IMAGE),
    ShapeRule(
        "an alarm's window over a day",
        "alarms.window_minutes = 1441",
        "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html",
    ),
    ShapeRule(
        "a latency alarm in microseconds",
        "alarms.p99_latency_ms = 100000",
        "InvokeEndpoint ends after 60 s: more is another unit",
    ),
    ShapeRule("an endpoint's name of 64 characters", f'endpoint.name = "{"a" * 64}"', _ENDPOINT),
    ShapeRule("an underscore in an endpoint's name", 'endpoint.name = "my_endpoint"', _ENDPOINT),
    ShapeRule(
        "a volume over 512 GB",
        "variants.primary.volume_gb = 513",
        "infra/catalog/limits.json, ProductionVariantVolumeSizeInGB",
    ),
    ShapeRule(
        "a download timeout over an hour",
        "variants.primary.download_timeout_seconds = 3601",
        "infra/catalog/limits.json, ProductionVariantModelDataDownloadTimeoutInSeconds",
    ),
)

# Those that no key can even express.
IMPOSSIBLE = (
    "A first number of instances outside the range: it is min_instances.",
    "A rollback without alarms: [rollout] always brings the 5xx alarm of the new fleet.",
    "An alarm that keeps its state from the incident: it is a new one for every configuration.",
    "A fixed ModelName or EndpointConfigName: no file names them.",
)
