"""Golden requests, their answers and warm-up records against the model, its batching and its handler."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.finding import Severity
from infra.preflight.check import check_all
from model_packaging.saved_model.reading import WARM_UP
from servable_tensors import tfrecord, wire
from tests.batches import build_batch_example
from tests.preflight.overlay import overlaid

REQUEST = 'models.ranker.golden = { request = "golden/a.json" }\n'
CODE = 'models.ranker.code = "code"\n'
ANSWERED = 'models.ranker.golden = { request = "golden/a.json", answer = "golden/b.json" }\n'
ROLLED = (
    'rollout = { strategy = "canary", golden_requests = { body = "golden/a.json" } }\n'
    "alarms = { p99_latency_ms = 100 }\n"
)
SERVABLE = 'models.ranker.handler = "servable"\n'
BATCHING = "variants.primary.container.batching = {{ max_batch_size = {} }}\n"
ROW = {"feat_ids": [0] * 39, "feat_vals": [0.5] * 39}


Golden = Callable[..., None]


@pytest.fixture
def golden(project: Path) -> Golden:
    """Writes golden/a.json, the request, and golden/b.json, the answer."""

    def write(request: Any, answer: Any = None) -> None:
        for name, content in (("a", request), ("b", answer)):
            text = content if isinstance(content, str) else json.dumps(content)
            (project / "golden" / f"{name}.json").write_text(text)

    return write


def found(project: Path, lines: str, *rules: str) -> list[tuple[str, str]]:
    """(severity, sentence after the key) of what the rules find."""
    ours = (one for one in check_all(overlaid(project, lines)) if one.rule in rules)
    return [(one.severity.value, one.problem) for one in ours]


def rows(count: int) -> dict[str, Any]:
    return {"instances": [ROW] * count}


def test_an_answer_is_held_against_the_rows_of_its_request(project: Path, golden: Golden) -> None:
    golden(rows(2), {"predictions": [0.1, 0.2]})
    assert found(project, ANSWERED, "golden-request", "golden-answer") == []

    names = ("request-columnar.json", "answer-columnar.json")
    golden(*((project / "golden" / name).read_text() for name in names))
    assert found(project, ANSWERED, "golden-request", "golden-answer") == []

    golden(rows(2), {"predictions": [0.1]})
    says = "golden/b.json: the response has 1 rows; the request has 2"
    assert found(project, ANSWERED, "golden-answer") == [("error", says)]

    golden(rows(1))
    (project / "golden" / "b.json").unlink()
    assert [one[0] for one in found(project, ANSWERED, "golden-answer")] == ["not checked"]


def test_a_golden_request_that_is_not_there_is_refused_also_as_a_further_one(project: Path) -> None:
    says = "there is no file golden/a.json"
    assert found(project, REQUEST, "golden-request") == [("error", says)]

    names = ("golden/request-rows.json", "x.json")
    tables = ", ".join(f'{{ request = "{name}" }}' for name in names)
    further = f"models.ranker.also_golden = [{tables}]\n"
    assert found(project, further, "golden-request") == [("error", "there is no file x.json")]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("{", "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
        ({"inputs": {"ids": [1]}}, "gives ids; the signature expects feat_ids, feat_vals"),
        (
            {"instances": [{**ROW, "feat_ids": ["1"] * 39}]},
            "feat_ids holds '1'; the signature expects int64",
        ),
        (
            {"instances": [{**ROW, "feat_ids": [1] * 38}]},
            "feat_ids has shape [1, 38]; the signature expects [any, 39]",
        ),
    ],
)
def test_a_golden_request_that_the_model_refuses_is_refused(
    project: Path, golden: Golden, request_: Any, says: str
) -> None:
    golden(request_)
    for handler in ("", SERVABLE):
        ((severity, problem),) = found(project, REQUEST + handler, "golden-request")
        assert severity == "error"
        assert problem.startswith(f"golden/a.json: the request {says}")


def test_where_code_reads_the_request_or_changes_the_answer_neither_is_judged(
    project: Path, golden: Golden
) -> None:
    golden({"text": "what only the code knows"})
    assert [one[0] for one in found(project, REQUEST + CODE, "golden-request")] == ["not checked"]
    (project / "code" / "inference.py").unlink()
    for hook, severity in [("preprocess", "not checked"), ("postprocess", "error")]:
        (project / "code" / "transforms.py").write_text(f"def {hook}(one, context): return one\n")
        assert [one[0] for one in found(project, REQUEST + CODE, "golden-request")] == [severity]
    golden(rows(1), {"label": "cat"})
    assert found(project, ANSWERED + CODE, "golden-answer") == []


def test_golden_and_warming_requests_fit_a_batch(project: Path, golden: Golden) -> None:
    warmed = 'models.ranker.warm_up = ["golden/a.json"]\n'
    for most, lines, rule in [(64, REQUEST, "golden-request"), (8, warmed, "warm-up")]:
        for count, severities in [(most, []), (most + 1, ["error"])]:
            golden(rows(count))
            got = found(project, lines + BATCHING.format(most), rule)
            assert [severity for severity, _ in got] == severities


def test_the_body_of_an_update_is_held_against_the_model(project: Path, golden: Golden) -> None:
    golden({"instances": [[1]]})
    ((severity, problem),) = found(project, ROLLED, "rollout-golden-request")
    assert (severity, "names no inputs" in problem) == ("error", True)

    golden(rows(1))
    assert found(project, ROLLED, "rollout-golden-request") == []


def test_so_does_a_record_that_came_with_the_model(project: Path) -> None:
    log = wire.PredictionLog()
    for name, dtype in (("feat_ids", 9), ("feat_vals", 1)):
        tensor = log.predict_log.request.inputs[name]
        tensor.dtype = dtype
        for size in (9, 39):
            tensor.tensor_shape.dim.add(size=size)
    file = project / "model" / "1" / WARM_UP
    file.parent.mkdir()
    file.write_bytes(tfrecord.frame_records([log.SerializeToString()]))
    assert found(project, BATCHING.format(9), "saved-model") == []
    assert [one[0] for one in found(project, BATCHING.format(8), "saved-model")] == ["error"]


def test_a_fixed_first_dimension_cannot_be_batched_and_takes_no_more_rows(project: Path) -> None:
    _export(project, "serving_default", first=1)
    says = (
        "ranker, version 1: requests of the signature serving_default cannot be merged: its input x "
        "has shape [1, 3]"
    )
    assert found(project, BATCHING.format(8), "batch-fixed-shape") == [("error", says)]

    assert found(project, "", "batch-fixed-shape") == []
    _export(project, "serving_default", first=-1)
    assert found(project, BATCHING.format(8), "batch-fixed-shape") == []

    _export(project, "serving_default", first=-1, other=1)
    got = found(project, BATCHING.format(8), "batch-fixed-shape")
    assert [severity for severity, _ in got] == [Severity.WARNING.value]
    for first, rows, more, count in [(4, 5, "", 1), (4, 4, "", 0), (-1, 5, "", 0), (4, 5, CODE, 0)]:
        _export(project, "serving_default", first=first)
        got = found(project, f"traffic.rows_per_request = {rows}\n{more}", "rows-above-shape")
        says = "requests of 5 rows: ranker, version 1, accepts 4 at a time"
        assert got == [("error", says)] * count


def test_the_golden_request_of_a_model_that_only_a_batch_runs_is_checked(
    project: Path, golden: Golden
) -> None:
    scorer = 'models.scorer = { saved_model = "model", golden = { request = "golden/a.json" } }'
    batch = f"{scorer}\n{build_batch_example(model='scorer')}"
    golden(rows(2))
    assert found(project, batch, "golden-request") == []
    golden({"instances": [{"none": 1}]})
    ((severity, problem),) = found(project, batch, "golden-request")
    assert (severity, problem.startswith("golden/a.json: the request ")) == ("error", True)


def _export(project: Path, name: str, *, first: int, other: int | None = None) -> None:
    """A saved_model.pb without a graph, whose signatures take and give [first, 3]."""
    graph = wire.MetaGraphDef()
    graph.meta_info_def.tags.append("serve")
    for each, size in ((name, first), ("other", other)):
        if size is None:
            continue
        definition = graph.signature_def[each]
        definition.method_name = "tensorflow/serving/predict"
        for tensor in (definition.inputs["x"], definition.outputs["y"]):
            tensor.name, tensor.dtype = "t:0", 1
            for one in (size, 3):
                tensor.tensor_shape.dim.add(size=one)
    content = graph.SerializeToString()
    assert len(content) < 1 << 14
    length = bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
    (project / "model" / "1" / "saved_model.pb").write_bytes(b"\x08\x01\x12" + length + content)
