"""A file with ten faults: all of them at once, each with file, key, value, and remedy."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from infra.parameters.finding import Severity
from infra.preflight.check import check
from servable.check.command import check as command
from tests.preflight.overlay import overlaid

FAULTS = """
traffic.rows_per_request = 500
traffic.request_bytes = 9000000
alarms.p99_latency_ms = 50
rollout = { strategy = "canary", canary_percent = 90, bake_minutes = 2 }
variants.primary.instance_type = "ml.g4dn.12xlarge"
variants.primary.volume_gb = 100
variants.primary.inference_ami = "al2-ami-sagemaker-inference-gpu-2-1"
variants.primary.max_instances = 4
variants.primary.environment.SAGEMAKER_BATCH = "true"
variants.primary.container.tfs_processes = 1
variants.primary.container.gunicorn_threads = 4
variants.primary.container.batching = { max_batch_size = 64, timeout_micros = 60000 }
"""
EXPECTED = {
    "parameters": ("rollout.canary_percent", 90),
    "batch-below-request": ("variants.primary.container.batching.max_batch_size", 64),
    "batch-timeout-above-alarm": ("variants.primary.container.batching.timeout_micros", 60000),
    "request-too-large": ("traffic.request_bytes", 9_000_000),
    "rollout-bake-too-short": ("rollout.bake_minutes", 2),
    "storage-volume-on-nvme": ("variants.primary.volume_gb", 100),
    "ami-cuda": ("variants.primary.inference_ami", "al2-ami-sagemaker-inference-gpu-2-1"),
    "capacity-nothing-scales": ("variants.primary.max_instances", 4),
    "variable-unsupported": ("variants.primary.environment.SAGEMAKER_BATCH", "true"),
    "gpu-idle": ("variants.primary.container.tfs_processes", 1),
    "workers-without-code": ("variants.primary.container.gunicorn_threads", 4),
    "threads-with-gevent": ("variants.primary.container.gunicorn_threads", 4),
}


def test_the_command_and_check_show_every_fault_at_once_with_key_value_and_remedy(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = check(overlaid(project, FAULTS))
    assert {one.rule: (one.key, one.given) for one in found} == EXPECTED
    told = [one for one in found if one.file == "environments/prod.toml" and one.remedy]
    assert len(told) == len(EXPECTED)
    silent = [one.rule for one in found if str(one.given) not in str(one).replace(",", "")]
    assert silent == []
    assert sum(one.severity is Severity.ERROR for one in found) == 10
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(command, [], standalone_mode=False, color=False)
    shown = [line for line in ran.stderr.splitlines() if not line.startswith(("not checked", " "))]
    assert (ran.return_value, len(shown)) == (1, len(EXPECTED))
