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
from servable.init.first_environment import ENDINGS, Start, stage_environment

# Within it two answers to the same request are alike: an environment file's default.
TOLERANCE = Golden.model_fields["tolerance"].default


def add_first_response(
    start: Start, root: Path, folder: Path, report: Callable[[str], None]
) -> None:
    """Add the model's response to its request, or remove a request that the model rejects.

    A note explains why a request or a response is left out, beginning with the server's sentence.
    """
    if start.body is None:
        return
    problem = explain_missing_packages()
    if problem is None and start.code and (root / start.code / "requirements.txt").is_file():
        problem = (
            f"{start.code}/requirements.txt is not packed yet; run `servable package {start.name}`"
        )
    if problem is not None and start.invented:
        _remove_request(start, problem, "No request was sent")
        return
    if problem is not None:
        start.notes.append(f"{problem.rstrip('.')}: the golden request has no recorded answer")
        return
    # These need boto3, NumPy, and psutil, which the base doesn't install.
    from servable.answers.differences import find_differences
    from servable.check.run import post_body, read_reason
    from servable.project.provided import LaunchError
    from servable.serve.serve import FAILED_RECORD, prepare_variant, serve_locally

    ending = Path(start.request_file).suffix
    # Its own code may take another format than the model, which warm-up requests go to directly.
    start.answer, start.warms_up = "", start.code is None and ending == ".json"
    report("sending the first request to the model in the local container")
    rejected = f"The model rejected {'an invented' if start.invented else 'your'} request"
    with (
        tempfile.TemporaryDirectory(prefix="servable-init-") as temporary,
        stage_environment(root, folder, start.name, start.files) as (loaded, _),
    ):
        assert isinstance(loaded, ValidFile)  # `predict_findings` has found no error
        try:
            # A failure of the warm-up would hide the reason.
            served = replace(prepare_variant(loaded), warm_up={})
            with serve_locally(served, port=0, log=Path(temporary, "log")) as process:
                url = f"{process.url}/invocations"
                sent = start.body.encode(), ENDINGS[ending]
                answers = [post_body(url, *sent) for _ in range(2)]
        except (LaunchError, PackagingError) as wrong:
            failed = FAILED_RECORD.search(str(wrong))
            problem = failed["problem"] if failed else str(wrong)
            _remove_request(start, " ".join(problem.split()), rejected)
            return
    for status, answer in answers:
        if status != 200:
            _remove_request(start, read_reason(answer), rejected)
            return
    (_, first), (_, second) = answers
    start.answer = first.decode()
    if unlike := next(find_differences(first, second, TOLERANCE), None):
        (where, was, now), start.answer = unlike, None
        start.notes.append(
            f"two responses to the golden request differ ({where}: {was!r:.100}, then {now!r:.100}): no "
            "response was recorded; export the model without randomness, such as dropout"
        )


def _remove_request(start: Start, problem: str, event: str) -> None:
    start.notes.append(
        f"{problem.rstrip('.')}. {event}: no golden request or warm-up request was written; "
        f"{start.file} shows where to put one that the model accepts"
    )
    start.body = start.answer = None
    start.warms_up = False
