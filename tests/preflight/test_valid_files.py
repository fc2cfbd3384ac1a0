"""Unusual files that are right are not accused: what stands in them is taken and does what it says."""

import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.preflight.check import check
from infra.preflight.scaling.schedules import load_time_zones, suggest_time_zone
from tests.conftest import make_project
from tests.preflight.overlay import overlaid

SCALED = "variants.primary.max_instances = 8\nvariants.primary.scaling.max_rps_per_instance = 100\n"
GPU = 'variants.primary.instance_type = "ml.g5.xlarge"\n'
CODE = 'models.ranker.code = "code"\n'
HANDLER = 'models.ranker.handler = "servable"\n'
ALARM = "alarms.p99_latency_ms = 100\n"
MIN_4 = "variants.primary.min_instances = 4\n"


def _schedule(*actions: str) -> str:
    inside = ", ".join(f"{{ {action} }}" for action in actions)
    return f"{SCALED}variants.primary.scaling.schedule = [{inside}]"


VALID_FILES = {
    "a region of the sovereign cloud with an own image": (
        'region = "eusc-de-east-1"\nmodels.ranker.image = '
        '"111111111111.dkr.ecr.eusc-de-east-1.amazonaws.eu/serving:2.20-cpu"'
    ),
    "a region in a small partition": 'region = "us-gov-west-1"',
    "threads that TensorFlow chooses": (
        "variants.primary.container = { inter_op_threads = 0, intra_op_threads = 0 }"
    ),
    "a list for nested OpenMP regions in an older image": (
        'models.ranker.tensorflow = "2.20"\nvariants.primary.environment.OMP_PROC_BIND = "true"'
    ),
    "a batch without a wait": (
        "variants.primary.container.batching = { max_batch_size = 64, timeout_micros = 0 }"
    ),
    "a batch that waits just below the callers' timeout": (
        "traffic.caller_timeout_ms = 200\n"
        "variants.primary.container.batching = { timeout_micros = 199999 }"
    ),
    "a batch that waits for minutes in a queue": (
        "asynchronous = {}\nvariants.primary.container.batching = { timeout_micros = 120000000 }"
    ),
    "one gevent worker with batching": (
        f"{CODE}variants.primary.container = {{ gunicorn_workers = 1, batching = {{}} }}"
    ),
    "one sync worker without batching": (
        f'{CODE}variants.primary.container = {{ gunicorn_workers = 1, gunicorn_worker_class = "sync" }}'
    ),
    "a handler's timeout below the container's": (
        f"{HANDLER}variants.primary.container.request_timeout_seconds = 5"
    ),
    "a handler's timeout of a longer wait": (
        f"{HANDLER}variants.primary.container = {{ wait_time_seconds = 300, "
        "request_timeout_seconds = 55 }"
    ),
    "more processes on a GPU than the margin's default": (
        f"{GPU}variants.primary.container = {{ tfs_processes = 2, gpu_memory_margin = 0.1 }}"
    ),
    "an AMI that AWS tests the image on": (
        f'{GPU}variants.primary.inference_ami = "al2-ami-sagemaker-inference-gpu-3-1"'
    ),
    "alarms on a GPU": f"{GPU}alarms = {{ gpu_percent = 80, gpu_memory_percent = 97 }}",
    "only an alarm of the median": "alarms.p50_latency_ms = 5000",
    "a pager, a team and a channel by e-mail": (
        'alarms = { page = ["https://events.eu.pagerduty.com/integration/0a/enqueue"], notify = '
        '["team@example.com", "x-aaaa@team.slack.com", "https://api.opsgenie.com/v1/json/amazonsns?k=1"] }'
    ),
    "a hook of one's own": 'alarms.notify = ["https://hooks.example.com/services/sns"]',
    "as much at night as at the peak": "traffic = { quiet_rps = 40, peak_rps = 40 }",
    "a queue with its own alarms": (
        "asynchronous = {}\nalarms = { oldest_request_minutes = 30, async_failures_per_minute = 2 }"
    ),
    "an alarm at the maximum": f"{SCALED}alarms.at_max_minutes = 30",
    "a rehearsed rolling update": (
        f'{ALARM}{MIN_4}rollout = {{ strategy = "rolling", batch_percent = 50, rollback_batch_percent = 99 }}'
    ),
    "a linear update in halves": (
        f'{ALARM}{MIN_4}rollout = {{ strategy = "linear", step_percent = 50 }}'
    ),
    "a redundant pair for little traffic": (
        "traffic.peak_rps = 30\nvariants.primary.min_instances = 2\n" + SCALED
    ),
    "a target of concurrency and of requests": (
        f"traffic.peak_rps = 1\n{SCALED}variants.primary.scaling.max_concurrency_per_instance = 4"
    ),
    "steps that grow": (
        "variants.primary.max_instances = 8\nvariants.primary.scaling.steps = ["
        "{ above_rps = 80, change = 1 }, { above_rps = 160, change = 4 }, { below_rps = 20, change = -1 }, "
        "{ below_rps = 5, change = -3 }]"
    ),
    "a schedule for mornings alone": _schedule('at = "cron(0 7 ? * MON-FRI *)", at_least = 4'),
    "two bounds in two actions of one minute": _schedule(
        'at = "cron(0 7 * * ? *)", at_least = 2', 'at = "cron(0 7 * * ? *)", at_most = 8'
    ),
    "the same hour in two time zones": _schedule(
        'at = "cron(0 7 * * ? *)", timezone = "Europe/Berlin", at_least = 4',
        'at = "cron(0 7 * * ? *)", timezone = "America/New_York", at_least = 2',
    ),
    "every minute and every hour": _schedule(
        'at = "rate(1 minute)", at_least = 1', 'at = "rate(90 minutes)", at_least = 1'
    ),
    "suspended scaling in a test environment": f"{SCALED}variants.primary.scaling.hold = true",
    "JSON with a character set": 'traffic.content_types = ["application/json; charset=utf-8"]',
    "arrays for Servable's handler": (
        f'{HANDLER}traffic.content_types = ["application/x-npy", "application/x-protobuf"]'
    ),
    "pictures for a handler of one's own": f'{CODE}traffic.content_types = ["image/jpeg"]',
    "variables of TensorFlow, gRPC and boto3": (
        "variants.primary.environment = { TF_CPP_MIN_LOG_LEVEL = '1', TF_FORCE_GPU_ALLOW_GROWTH = 'true', "
        "GRPC_VERBOSITY = 'ERROR', AWS_MAX_ATTEMPTS = '5', GUNICORN_CMD_ARGS = '--max-requests 1000' }"
    ),
    "variables that name where a secret is": (
        "variants.primary.environment = { DB_SECRET = 'prod/db', API_KEY_PARAMETER = '/prod/key', "
        "TOKEN_LIMIT = '512', EOS_TOKEN = '</s>', FEATURE_STORE_URL = 'https://features.internal:8443' }"
    ),
    "a variable with a long hash": (
        "variants.primary.environment.REVISION = 'da39a3ee5e6b4b0d3255bfef95601890afd80709'"
    ),
}


@pytest.fixture(scope="module")
def valid_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("valid"))


@pytest.mark.parametrize("lines", VALID_FILES.values(), ids=VALID_FILES)
def test_an_unusual_file_that_is_right_is_not_accused(valid_project: Path, lines: str) -> None:
    assert [str(finding) for finding in check(overlaid(valid_project, lines))] == []


def test_a_zone_is_suggested_where_one_offset_is_meant() -> None:
    for name in ("Berlin", "europe/berlin"):
        assert suggest_time_zone(name) == "did you mean Europe/Berlin?"
    for name in (
        "Europe/Berlinn", "America/London", "utc", "CEST", "aest", "BST", "GMT+2", "Asia/Bangalore",
        "Australia/East", "",
    ):  # fmt: skip
        assert suggest_time_zone(name) == "use an IANA time zone name"


def test_no_abbreviation_gets_a_zone_with_another_offset() -> None:
    meant: dict[str, set[timedelta | None]] = {}
    for zone in load_time_zones():
        for month in range(1, 13):
            moment = datetime(2026, month, 1, tzinfo=UTC).astimezone(zoneinfo.ZoneInfo(zone))
            meant.setdefault(moment.tzname() or "", set()).add(moment.utcoffset())
    assert len(meant) > 50
    for abbreviation, offsets in meant.items():
        for name in (abbreviation, abbreviation.lower(), abbreviation.title()):
            found = re.search(r"did you mean (.+)\?", suggest_time_zone(name))
            # Of met the zone MET itself is meant, with its summer time.
            if found and name not in load_time_zones() and found[1].lower() != name.lower():
                months = [datetime(2026, month, 1, tzinfo=UTC) for month in range(1, 13)]
                where = zoneinfo.ZoneInfo(found[1])
                assert {each.astimezone(where).utcoffset() for each in months} <= offsets, name
