"""How long a large model takes to deploy to the local AWS, with the real CDK CLI, and what memory.

python -m benchmarks.local.large 3        # gigabytes; prints what was measured, and writes nothing
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.command import Told, clock
from scripts.demo_steps import cdk
from servable_local.aws import running
from servable_local.aws.lifecycle import status
from servable_local.aws.local_aws import ACCOUNT, REGION

SIZES = (3, 12)  # gigabytes of weights
# The model, its archive, the object, the unpacked archive; one more where the disk caches nothing.
DISK_TIMES = 5
_VARIABLES = 12
_FLOAT_BYTES = 4
_ENVIRONMENT = f"""\
account = "{ACCOUNT}"
region = "{REGION}"
[endpoint]
name = "large"
[models.large]
saved_model = "model"
tensorflow = "2.20"
[variants.primary]
model = "large"
instance_type = "ml.r5.24xlarge"
startup_timeout_seconds = 900
# One copy of the weights: an instance of this type would have several model servers.
container.tfs_processes = 1
"""


def deployed(folder: Path, gigabytes: float, told: Told) -> dict[str, Any]:
    """Seconds of `cdk deploy`, packing included, and the most memory of the local AWS, in MB."""
    told(f"{gigabytes:g} GB: making a model")
    command = [
        sys.executable,
        "-m",
        "benchmarks.local.large",
        str(gigabytes),
        str(folder / "model" / "1"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "environments").mkdir()
    (folder / "environments" / "large.toml").write_text(_ENVIRONMENT, encoding="utf-8")
    app = f"{Path(sys.executable).parent / 'servable-app'}"
    (folder / "cdk.json").write_text(json.dumps({"app": app}), encoding="utf-8")
    with running() as aws:
        environment = aws.environment()
        cdk(["bootstrap", f"aws://{ACCOUNT}/{REGION}"], environment, told, aws.folder)
        begun = time.perf_counter()
        cdk(["deploy", "large/*", "--require-approval", "never"], environment, told, folder)
        seconds = time.perf_counter() - begun
        found = aws.client("sagemaker").describe_endpoint(EndpointName="large")["EndpointStatus"]
        if found != "InService":
            raise RuntimeError(f"the endpoint is {found}")
        return {
            "gigabytes": gigabytes,
            "seconds": seconds,
            "memory_mb": memory_mb(aws.pid, "VmHWM"),
        }


def started(folder: Path) -> dict[str, float]:
    """Seconds of `servable-local up`, a process of its own, and the memory of what it started, in MB."""
    code = "import sys; from servable_local.aws.command import main; sys.exit(main())"
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, "up"], cwd=folder, check=True, capture_output=True)
    seconds = time.perf_counter() - begun
    aws = status(folder=folder / ".servable")
    assert aws is not None
    memory = memory_mb(aws.pid, "VmRSS")
    subprocess.run(
        [sys.executable, "-c", code, "down"], cwd=folder, check=True, capture_output=True
    )
    return {"seconds": seconds, "memory_mb": memory}


def memory_mb(pid: int, line: str) -> float:
    """A line of /proc/PID/status: VmRSS is the memory now, VmHWM the most so far."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    (found,) = [one for one in lines if one.startswith(line)]
    return int(found.split()[1]) * 1024 / 1e6


def _save_model(folder: Path, gigabytes: float) -> None:
    import tensorflow as tf

    count = int(gigabytes * 1e9 / _VARIABLES / _FLOAT_BYTES)

    class Large(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            draw = tf.random.stateless_normal
            self.weights = [tf.Variable(draw([count], seed=[0, one])) for one in range(_VARIABLES)]

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(self, x: Any) -> Any:
            return {"y": x + tf.add_n([one[0] for one in self.weights])}

    large = Large()
    tf.saved_model.save(large, str(folder), signatures={"serving_default": large.serve})


def main(words: list[str]) -> int:
    if len(words) == 2:
        _save_model(Path(words[1]), float(words[0]))
        return 0
    with tempfile.TemporaryDirectory(prefix="servable-benchmark-") as folder:
        print(json.dumps(deployed(Path(folder), float(words[0]), clock())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
