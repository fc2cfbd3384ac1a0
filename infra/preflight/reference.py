"""docs/rules.md: every rule, from the rules themselves."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.parameters.finding import Severity
from infra.preflight.check import RULES
from infra.preflight.rule import Rule


@dataclass(frozen=True)
class ShapeRule:
    """A fault that needs no rule, because no file can hold it.

    Each has a row in tests/preflight/test_shape_rules.py.
    """

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

_HEAD = """\
# Every rule

Generated from the rules in infra/preflight by `python scripts/generate.py`; do not edit.

`servable check` shows what these rules find, in a second and without AWS; `cdk synth` and `cdk deploy` show
the same, and stop the stacks that have an error and no others. A rule that lacks an input is shown as
*not checked*, never as passed: `--against REF` gives the revision that is deployed, `[traffic]` what callers
send, `artifact.size_gib` how large an archive is.

A rule marked *can be accepted* may be accepted in the file, with a reason of ten characters or more. An
acceptance of something that is not there is a finding itself (`acknowledge-nothing`).

    [acknowledge]
    instance-retired = "moves to ml.g4dn.xlarge with the next model"

Where the finding says so, the acceptance names the file too, and accepts no other:

    [acknowledge]
    "code-holds-secrets:code/.env" = "holds log levels only"
"""


def markdown() -> str:
    """The whole document."""
    lines = [_HEAD, "| rule | severity | |", "|---|---|---|"]
    lines += [f"| [{rule.id}](#{rule.id}) | {_severity(rule)} | {_first(rule)} |" for rule in RULES]
    for rule in RULES:
        lines += ["", *_section(rule)]
    lines += ["", "## What a file cannot say", ""]
    lines += ["Refused as the file is read, with key, value and range:", ""]
    lines += ["| fault | example | source |", "|---|---|---|"]
    lines += [f"| {one.fault} | `{_short(one.example)}` | {one.source} |" for one in SHAPE_RULES]
    lines += ["", "Not to be written at all:", "", *(f"- {one}" for one in IMPOSSIBLE)]
    return "\n".join(lines) + "\n"


def _section(rule: type[Rule]) -> Iterator[str]:
    yield f"## {rule.id}"
    yield ""
    yield f"{_severity(rule)}. {rule.why()}"
    yield ""
    yield from (f"    {_short(line)}" for line in rule.example.splitlines())
    yield ""
    yield f"Source: {rule.source() or 'none of AWS: it is about this project and its files'}"


def _severity(rule: type[Rule]) -> str:
    word = "Error" if rule.severity is Severity.ERROR else "Warning"
    return f"{word}, can be accepted" if rule.acknowledgeable else word


def _first(rule: type[Rule]) -> str:
    return rule.why().split(". ")[0].rstrip(".")


def _short(line: str) -> str:
    return line.replace("a" * 64, "…")
