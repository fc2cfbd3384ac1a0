"""The project that an acceptance run deploys: a folder with an environment for each kind of endpoint."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.catalog.availability import offered
from infra.catalog.limits import limit
from infra.catalog.prices import price
from infra.policy.acceptance_policy import PREFIX, TAG
from servable.conformance.prepare import MODELS
from servable.new.project_files import BASE, project_files, write_all

RANKER = Path(__file__).with_name("ranker")
"""examples/ranker: its model and its golden requests."""

# t2 cannot be a scalable target (github index id 61031353964, tested in us-east-1, 2026-07-31).
_CANNOT_SCALE = ("ml.t2.",)
# The TensorFlow image is for x86, and these names are CPUs' with at least 4 GB: the ranker takes less.
_FAMILIES = ("ml.t2.", "ml.c5.", "ml.m5.", "ml.c6i.", "ml.m6i.", "ml.c7i.", "ml.m7i.")

_BASE = """\
account = "{account}"
region = "{region}"
production = false
[endpoint]
log_retention_days = 1
[models.ranker]
saved_model = "ranker/model"
handler = "servable"
tensorflow = "2.20"
[models.ranker.golden]
request = "ranker/golden/request-rows.json"
answer = "ranker/golden/answer-rows.json"
[traffic]
request_bytes = 4_000
answer_bytes = 1_000
caller_timeout_ms = 30_000
[alarms]
window_minutes = 1
[tags]
"{tag}" = "{run}"
"""
_FILES = {
    "main": """\
[variants.primary]
model = "ranker"
instance_type = "{instance}"
min_instances = 1
max_instances = {most}
{scaling}
[alarms]
p99_latency_ms = 5000
error_4xx_percent = 20
model_error_percent = 20
[capture]
sample_percent = 100
keep_days = 1
[rollout]
strategy = "canary"
canary_percent = 50
bake_minutes = 4
[rollout.golden_requests]
body = "ranker/golden/request-rows.json"
per_minute = 5
""",
    "serverless": """\
[variants.primary]
model = "ranker"
[variants.primary.serverless]
memory_mib = 3072
max_concurrency = 2
""",
    "batch": """\
[batch.rows]
model = "ranker"
instance_type = "{batch}"
input = "s3://{bucket}/rows/"
output = "s3://{bucket}/scores/"
content_type = "application/jsonlines"
""",
    "asynchronous": """\
[asynchronous]
keep_days = 1
[variants.primary]
model = "ranker"
instance_type = "{instance}"
min_instances = 0
max_instances = 1
[variants.primary.scaling]
max_backlog_per_instance = 1
safety_factor = 1.0
""",
    "components": """\
[endpoint]
wake_seconds = 1800
[variants.primary]
model = "ranker"
instance_type = "{instance}"
sleep_after_minutes = 5
max_instances = 1
""",
    "variants": """\
[variants.primary]
model = "ranker"
instance_type = "{instance}"
weight = 3.0
[variants.other]
model = "ranker"
instance_type = "{instance}"
weight = 1.0
""",
    "conformance": """\
[variants.primary]
model = "mult"
instance_type = "{instance}"
""",
}
# 24 requests a minute: above the golden requests' 5 and the 10 of a caller while an update is watched, which
# must not add the instance that the step `scaling` waits for.
_SCALING = """\
[variants.primary.scaling]
max_rps_per_instance = 1
safety_factor = 0.4
"""

BROKEN = {
    "answers-500": """\
def postprocess(tensors, context):
    raise RuntimeError("an acceptance run tries whether this is rolled back")
""",
    "answers-400": """\
from servable_handler.hooks import InputError


def preprocess(body, context):
    raise InputError("an acceptance run tries whether this is rolled back")
""",
    "never-starts": """\
def preprocess(body, context):
    return {}


raise RuntimeError("an acceptance run tries whether this is rolled back")
""",
}
"""Folder of code to a transforms.py that must not stay live."""


@dataclass(frozen=True)
class Kind:
    """Quotas that an environment needs of the account, by instances that run at once."""

    endpoint_instances: int = 0
    transform_instances: int = 0
    scales: bool = False
    """Whether its instances must be of a type that can be a scalable target."""


KINDS: Mapping[str, Kind] = {
    "main": Kind(endpoint_instances=2),
    "serverless": Kind(),
    "batch": Kind(transform_instances=1),
    "asynchronous": Kind(endpoint_instances=1, scales=True),
    "components": Kind(endpoint_instances=1, scales=True),
    "variants": Kind(endpoint_instances=2),
    "conformance": Kind(endpoint_instances=1),
}
"""Environment to what it needs. `main` that scales needs twice as many."""
SCALED_MAIN_INSTANCES = 4


@dataclass(frozen=True, kw_only=True)
class InstanceChoice:
    """The instance types that the quotas allow, and the environments that they do not."""

    instance_type: str | None
    batch_type: str | None
    scaled: bool
    """Whether `main` scales from one instance to two."""
    left_out: Mapping[str, str]
    """Environment to the reason why it is not deployed."""
    capacity: int | None
    """Instances of `instance_type` that may run at once; None: no quota is known."""


def choose(
    region: str, quotas: Mapping[str, float] | None, wanted: Iterable[str]
) -> InstanceChoice:
    """Return the cheapest instance type on which most of the environments can run.

    `quotas`: name of a quota of Service Quotas to its value; None: the account has none.
    """
    wanted = list(wanted)

    def held(name: str, use: str) -> float:
        return float("inf") if quotas is None else quotas.get(f"{name} for {use} usage", 0)

    def runs(name: str, kind: Kind) -> bool:
        scales = not name.startswith(_CANNOT_SCALE)
        return held(name, "endpoint") >= kind.endpoint_instances and (scales or not kind.scales)

    def cheapest(names: Iterable[str]) -> list[str]:
        prices = {name: row.usd_per_hour for name in names if (row := price(name, region))}
        return sorted(
            (name for name in prices if name.startswith(_FAMILIES)), key=prices.__getitem__
        )

    hosted = [name for name in wanted if KINDS[name].endpoint_instances]
    types = cheapest(offered(region))
    # Where there are no quotas: a type that can do everything.
    chosen = max(
        types,
        key=lambda name: (
            sum(runs(name, KINDS[kind]) for kind in hosted)
            + ("main" in wanted and _scales_main(name, held(name, "endpoint"))),
            -types.index(name),
        ),
    )
    batch_types = cheapest(limit("TransformInstanceType")["enum"])
    batch_type = next((name for name in batch_types if held(name, "transform job") >= 1), None)
    left_out = {}
    for name in hosted:
        if not runs(chosen, KINDS[name]):
            count, value = KINDS[name].endpoint_instances, held(chosen, "endpoint")
            quota = f"{chosen} for endpoint usage"
            left_out[name] = (
                f"{chosen} cannot scale, and no other type has a quota for it"
                if value >= count
                else f"the quota {quota!r} is {value:g}, needed {count}"
            )
    if "batch" in wanted and batch_type is None:
        left_out["batch"] = "no quota 'TYPE for transform job usage' of a small type is above 0"
    most = held(chosen, "endpoint")
    return InstanceChoice(
        instance_type=chosen,
        batch_type=batch_type,
        scaled=_scales_main(chosen, most),
        left_out=left_out,
        capacity=None if most == float("inf") else int(most),
    )


def _scales_main(instance_type: str, quota: float) -> bool:
    return not instance_type.startswith(_CANNOT_SCALE) and quota >= SCALED_MAIN_INSTANCES


def environment_name(kind: str) -> str:
    """Name of the environment, of its stacks without their end, and of its batch's jobs without theirs."""
    return f"{PREFIX}-{kind}"


def endpoint_name(kind: str) -> str:
    """One has a capital letter: is its ARN in lower case?"""
    return f"{PREFIX}-{kind.capitalize() if kind == 'variants' else kind}"


def bucket_name(account: str, region: str) -> str:
    """The bucket of the batch's rows and scores."""
    return f"{PREFIX}-{account}-{region}"


def write_project(
    folder: Path,
    *,
    account: str,
    region: str,
    run: str,
    choice: InstanceChoice,
    names: Iterable[str],
) -> None:
    """Write the project with these environments into a new folder.

    The models of `conformance` are written by its step, which needs TensorFlow for it.
    """
    names = set(names)
    values = {
        "account": account,
        "region": region,
        "tag": TAG,
        "run": run,
        "bucket": bucket_name(account, region),
        "instance": choice.instance_type,
        "batch": choice.batch_type,
        "most": 2 if choice.scaled else 1,
        "scaling": _SCALING if choice.scaled else "",
    }
    files = project_files(PREFIX) | {BASE: _BASE.format_map(values)}
    for name in names - {"batch"}:
        text = _FILES[name].format_map(values)
        endpoint = f'name = "{endpoint_name(name)}"\n'
        if "[endpoint]\n" in text:
            text = text.replace("[endpoint]\n", f"[endpoint]\n{endpoint}")
        else:
            text = f"[endpoint]\n{endpoint}{text}"
        if name == "conformance":
            others = ", ".join(f'"{other}"' for other in MODELS[1:])
            text += f"[models.mult]\nalso_serves = [{others}]\n" + "".join(
                f'[models.{model}]\nsaved_model = "conformance/{model}"\ntensorflow = "2.20"\n'
                for model in MODELS
            ).replace("[models.mult]\n", "", 1)
        if name == "serverless" and "batch" in names:
            text += _FILES["batch"].format_map(
                values
            )  # a batch needs an endpoint's file: the cheapest
        files[f"environments/{environment_name(name)}.toml"] = f'extends = "base"\n{text}'
    write_all(folder, files)
    shutil.copytree(RANKER, folder / "ranker")
    for version, text in BROKEN.items():
        code = folder / "code" / version
        code.mkdir(parents=True)
        (code / "transforms.py").write_text(text, encoding="utf-8")
