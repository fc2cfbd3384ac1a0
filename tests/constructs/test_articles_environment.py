"""Two articles' environment dicts, pasted into a construct, give the template of the keys.

tests/parameters/test_container_environment.py holds the two spellings of files against each other.
"""

import json
from typing import Any

import pytest

from infra.policy.container import ContainerSettings
from tests.checkouts import ROOT
from tests.constructs.conftest import Own, Synthesised
from tests.constructs.test_batch import own_batch

TYPE = "ml.c5.9xlarge"
# https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
TUNED = {
    "SAGEMAKER_TFS_INSTANCE_COUNT": "8",
    "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": "0.2",
    "SAGEMAKER_TFS_INTER_OP_PARALLELISM": "1",
    "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "1",
    "SAGEMAKER_GUNICORN_WORKERS": "36",
    "SAGEMAKER_GUNICORN_WORKER_CLASS": "gevent",
    "OMP_NUM_THREADS": "1",
}
TUNED_KEYS = {
    "tfs_processes": 8,
    "gpu_memory_margin": 0.2,
    "inter_op_threads": 1,
    "intra_op_threads": 1,
    "gunicorn_workers": 36,
    "gunicorn_worker_class": "gevent",
    "omp_threads": 1,
}
# The article of AWS China about a ranking model.
PLAIN = {"TF_DISABLE_MKL": "1", "TF_DISABLE_POOL_ALLOCATOR": "1"}
RANKING = {
    "SAGEMAKER_TFS_ENABLE_BATCHING": "true",
    "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "1000",
    "SAGEMAKER_TFS_MAX_BATCH_SIZE": "128000",
    "SAGEMAKER_TFS_NUM_BATCH_THREADS": "16",
    "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES": "16",
    **PLAIN,
}
RANKING_KEYS = {
    "batching": {
        "timeout_micros": 1000,
        "max_batch_size": 128000,
        "batch_threads": 16,
        "max_enqueued_batches": 16,
    }
}


def built(*, batch: bool = False, **given: Any) -> Synthesised:
    if batch:
        return own_batch(instance_type=TYPE, **given)
    own = Own(model_name="ranker", **given)
    own.add(instance_type=TYPE)
    return own.synthesised


@pytest.mark.parametrize(
    ("batch", "pasted", "keys", "plain"),
    [(False, TUNED, TUNED_KEYS, {}), (True, RANKING, RANKING_KEYS, PLAIN)],
    ids=["endpoint", "batch"],
)
def test_a_construct_has_one_template_in_both_spellings(
    batch: bool, pasted: dict[str, str], keys: dict[str, Any], plain: dict[str, str]
) -> None:
    container = ContainerSettings.model_validate(keys)
    first = built(batch=batch, environment=pasted)
    second = built(batch=batch, environment=plain, container=container)
    assert first.template == second.template
    written = first.one("AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]
    assert {name: written[name] for name in pasted} == pasted


def test_a_construct_names_what_does_not_fit_in_its_environment() -> None:
    workers = "SAGEMAKER_GUNICORN_WORKERS"
    with pytest.raises(ValueError, match=f"search/Model: environment.{workers}: .*four.*integer"):
        built(environment={workers: "four"})
    said = f"{workers}.* and container.gunicorn_workers set the same thing"
    with pytest.raises(ValueError, match=said):
        built(environment={workers: "4"}, container=ContainerSettings(gunicorn_workers=4))


def test_the_reference_and_the_schema_have_each_name() -> None:
    page = (ROOT / "docs" / "reference" / "parameters.md").read_text(encoding="utf-8")
    assert [name for name in TUNED | RANKING if name not in page] == []
    schema = json.loads((ROOT / "environments" / "schema.json").read_text(encoding="utf-8"))
    for table in ("Variant", "Component", "BatchSettings"):
        known = schema["$defs"][table]["properties"]["environment"]["properties"]
        assert set(known) >= set(TUNED | RANKING)
