"""[replay]: captured requests played again, how answers are compared, and the limits of the gate."""

from typing import Annotated

from pydantic import Field

from infra.parameters.table import Table

Share = Annotated[float, Field(ge=0, le=1)]
Relative = Annotated[float, Field(ge=0, le=1)]


class TypeTolerances(Table):
    """Relative tolerances of outputs that have none of their own, by data type.

    An answer differs if a number is off by more than this share of the largest number of its row (or of the
    output's mean magnitude, if that is larger): rounding errors grow with the numbers that are summed, not
    with their sum. Integers, truth values and strings are compared exactly.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1
    """

    # https://PyTorch.org/docs/stable/_modules/torch/testing/_comparison.html (2026-11-22) for all but float32
    float16: Relative = 1e-3
    """Relative tolerance of float16. 1e-3 is one unit in its last place; torch.testing.assert_close has the
    same."""
    bfloat16: Relative = 1.6e-2
    """Relative tolerance of bfloat16. 1.6e-2 is two units in its last place; torch.testing.assert_close has
    the same."""
    # https://tensorflow.org/api_docs/python/tf/experimental/numpy/allclose (2026-11-22)
    float32: Relative = 1e-5
    """Relative tolerance of float32 and of numbers in JSON and CSV, which carry no type. 1e-5, as in NumPy's
    and TensorFlow's allclose, is above what threads, batching and patch releases change, and below what
    weights rounded to float16 change (about 1e-4)."""
    float64: Relative = 1e-7
    """Relative tolerance of float64. 1e-7, as in torch.testing.assert_close: models compute float64 outputs
    partly in float32."""


class OutputTolerance(Table):
    """Tolerance of one output, instead of its type's."""

    relative: Relative | None = None
    """Relative tolerance. Default: that of the output's data type; 0 if only `absolute` is given."""
    absolute: Annotated[float, Field(ge=0)] | None = None
    """Absolute tolerance, in the output's unit, added to `relative` times the expected number itself. Write
    it for an output whose numbers differ in magnitude within a row. Default: none, and `relative` applies to
    the largest number of the row."""
    ignored: bool = False
    """Whether the output is left out of the comparison, because it differs in every answer: a request's id, a
    time. The result names it as not compared."""


class Replay(Table):
    captured: str | None = Field(default=None, min_length=1)
    """Captured requests that the pipeline replays before a deployment: s3://BUCKET/PREFIX of SageMaker's
    data capture, or a folder or file relative to the project. Default: none, and the step is left out."""
    differing_rows_share: Share = 0.0
    """Limit of the gate: the share of rows whose answer may differ by more than the tolerance. A row is one
    element of the batch dimension."""
    detectable_share: Annotated[float, Field(gt=0, le=1)] = 0.001
    """Share of rows above differing_rows_share that the gate has to find with 95 % confidence. It decides how
    many rows must be compared: 3 divided by it (the rule of three), 3,000 for one row in a thousand, 30,000
    for one in ten thousand. With fewer rows the gate is inconclusive. 0.001 is what a few thousand captured
    requests show.
    Source: Hanley and Lippman-Hand, If Nothing Goes Wrong, Is Everything All Right?, JAMA 249 (1983)"""
    skipped_share: Share = 0.01
    """Limit of the gate: the share of captured lines that may go uncompared because they cannot be read or
    have no answer. Above it the gate is inconclusive: what is missing may be what differs. 0.01 allows for
    lines that were cut off when files were copied."""
    added_outputs: bool = False
    """Whether answers may have outputs that the expected ones lack, which callers that read outputs by name
    never see. The result names them as not compared."""
    largest_difference: Annotated[float, Field(gt=0)] | None = None
    """Limit of the gate: the largest difference of a number, relative to the largest number of its row.
    Useful with a differing_rows_share above 0. Default: no limit but the tolerance."""
    error_share: Share = 0.0
    """Limit of the gate: the share of requests that may fail although the expected answer isn't an
    error."""
    top: list[Annotated[int, Field(ge=1, le=1000)]] = Field(default=[1, 5], max_length=8)
    """Numbers k for which a change of the k highest scores is reported. 1 and 5 are what classifiers are
    judged by."""
    by_type: TypeTolerances = TypeTolerances()
    """Relative tolerances by data type."""
    outputs: dict[str, OutputTolerance] = Field(default={})
    """Tolerances by the output's name; `output` for an answer without names (.npy, CSV, JSON of one
    output)."""
