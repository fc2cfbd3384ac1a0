"""The first request of a new environment.

It is written only if the model responds to it in the local container.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from infra.parameters.loading import ValidFile
from infra.parameters.model import Golden
from model_packaging.refusal import PackagingError
from servable.console.extras import explain_missing_packages
from servable.init.first_environment import Start, stage_environment

ENDINGS = {".json": "application/json", ".jsonl": "application/jsonlines", ".csv": "text/csv"}
# Within it two answers to the same request are alike: an environment file's default.
TOLERANCE = Golden.model_fields["tolerance"].default


def add_first_response(
    start: Start, root: Path, folder: Path, report: Callable[[str], None]
) -> Start:
    """Return the start with the model's response to its request.

    If the model rejects the request, return the start without the request. A note explains why a
    request or a response is left out, beginning with the server's sentence.
    """
    if start.body is None:
        return start
    problem = explain_missing_packages()
    if problem is None and start.code and (root / start.code / "requirements.txt").is_file():
        problem = (
            f"{start.code}/requirements.txt is not packed yet; run `servable package {start.name}`"
        )
    if problem is not None:
        return _leave_out_request(start, problem, rejected=False)
    # These need boto3, NumPy, and psutil, which the base doesn't install.
    from servable.answers.differences import find_differences
    from servable.check.run import post_body, read_reason
    from servable.project.provided import LaunchError
    from servable.serve.serve import FAILED_RECORD, prepare_variant, serve_locally

    # Its own code may take another format than the model, which warm-up requests go to directly.
    trial = replace(start, answer="", warms_up=start.code is None and start.ending == ".json")
    report("sending the first request to the model in the local container")
    with (
        tempfile.TemporaryDirectory(prefix="servable-init-") as temporary,
        stage_environment(root, folder, start.name, trial.files) as (loaded, _),
    ):
        assert isinstance(loaded, ValidFile)  # `predict_findings` has found no error
        try:
            served = replace(
                prepare_variant(loaded), warm_up={}
            )  # its failure would hide the reason
            with serve_locally(served, port=0, log=Path(temporary, "log")) as process:
                url = f"{process.url}/invocations"
                sent = start.body.encode(), ENDINGS[start.ending]
                answers = [post_body(url, *sent) for _ in range(2)]
        except (LaunchError, PackagingError) as wrong:
            failed = FAILED_RECORD.search(str(wrong))
            problem = failed["problem"] if failed else str(wrong)
            return _leave_out_request(start, " ".join(problem.split()), rejected=True)
    for status, answer in answers:
        if status != 200:
            return _leave_out_request(start, read_reason(answer), rejected=True)
    (_, first), (_, second) = answers
    if unlike := next(find_differences(first, second, TOLERANCE), None):
        where, was, now = unlike
        start.notes.append(
            f"two responses to the golden request differ ({where}: {was!r:.100}, then {now!r:.100}): no "
            "response was recorded; export the model without randomness, such as dropout"
        )
        return replace(start, warms_up=trial.warms_up)
    return replace(trial, answer=first.decode())


def _leave_out_request(start: Start, problem: str, *, rejected: bool) -> Start:
    """Leave out a request that was rejected, or an invented one that couldn't be sent."""
    sentence = problem.rstrip(".")
    if not rejected and not start.invented:
        start.notes.append(f"{sentence}: the golden request has no recorded answer")
        return start
    kind = "an invented" if start.invented else "your"
    failed = f"The model rejected {kind} request" if rejected else "No request was sent"
    start.notes.append(
        f"{sentence}. {failed}: no golden request or warm-up request was written; "
        f"{start.file} shows where to put one that the model accepts"
    )
    return replace(start, body=None)
