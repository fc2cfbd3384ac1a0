"""The local container is asked what the image's own code was asked, and has to answer the same.

What our handler answers otherwise since then stands in changed.toml, each with its reason.
"""

import http.client
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from servable.conformance.conformance import asked, counted
from servable.conformance.contract import CHECKS, MODEL_CHECKS
from servable.conformance.observed_cases import (
    Agreement,
    Case,
    ContainerSetup,
    ObservedAnswer,
    cases,
    changed,
    containers,
)
from servable.conformance.prepare import prepare
from servable.conformance.targets import ContainerTarget
from servable_local.container.launch import launch
from tests.conformance.deviations import DEVIATIONS, Deviation, proxy

CASES = cases()
CONTAINERS = {f"{one.image} {one.name}": one for one in containers(CASES)}
# The image was asked where TensorFlow turned oneDNN on by itself, which it does with AVX-512 alone.
AS_THE_IMAGE_DID = {"TF_ENABLE_ONEDNN_OPTS": "1"}
CHANGED = {(group, case) for group, named in changed().items() for case in named}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of every container, below the image's version."""
    folder = tmp_path_factory.mktemp("observed")
    for image in {container.image for container in CONTAINERS.values()}:
        prepare(
            [container for container in CONTAINERS.values() if container.image == image],
            folder / image,
        )
    return folder


@pytest.fixture
def local(name: str, prepared: Path) -> Iterator[ContainerTarget]:
    """A local container that serves what the table's container of this name did."""
    container = CONTAINERS[name]
    folder = prepared / container.image
    archive = None if container.is_multi_model else folder / f"{container.name}.tar.gz"
    variables = {**AS_THE_IMAGE_DID, **container.variables}
    with launch(archive, variables, tensorflow=container.image) as process:
        yield ContainerTarget(process.url, str(folder / container.name))


@pytest.mark.long
@pytest.mark.parametrize("name", CONTAINERS)
def test_the_local_container_answers_as_the_image_did(name: str, local: ContainerTarget) -> None:
    container = CONTAINERS[name]
    wrong = {
        (case.group, case.name)
        for case, answer in asked(local, container)
        if answer != case.answer and not (case.model == "vision" and _rounded(case, answer))
    }
    assert wrong == CHANGED & _named(container)


def _rounded(case: Case, answer: ObservedAnswer | None) -> bool:
    """Whether the last digits alone differ: processors add a convolution's products in another order."""
    return answer is not None and case.answer.agreement(answer) is Agreement.LAST_DIGITS


@pytest.fixture(scope="module")
def plain(prepared: Path) -> Iterator[str]:
    """The address of the container without code."""
    archive = prepared / "2.20" / "plain.tar.gz"
    with launch(archive, CONTAINERS["2.20 plain"].variables, tensorflow="2.20") as process:
        yield process.url


def _differing(url: str) -> int:
    container = CONTAINERS["2.20 plain"]
    # One of vision's requests ends the model server, which then takes seconds to start again.
    cases = tuple(case for case in container.cases if case.model != "vision")
    groups = counted(asked(ContainerTarget(url), replace(container, cases=cases)), is_local=True)
    return sum(len(group.differences) for group in groups)


@pytest.mark.long
def test_a_proxy_that_changes_nothing_changes_no_answer(plain: str) -> None:
    with proxy(plain, Deviation()) as url:
        assert _differing(url) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "version 2 answers for version 1",
        "Accept is ignored",
        "404 is 400",
        "the content type has a charset",
        "JSON without line breaks",
        "keys in another order",
        "whole numbers without a fraction",
        "numbers a millionth larger",
        "errors in other words",
        "the connection ends inside a body",
    ],
)
def test_a_planted_deviation_is_a_difference(plain: str, name: str) -> None:
    with proxy(plain, DEVIATIONS[name]) as url:
        assert _differing(url) > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a body of 20 KB is 500", "answers 20 KB with 20 KB"),
        ("a body of 7 MB is 413", "answers 7 MB with 7 MB"),
        ("an idle connection is closed after 1 s", "keeps an idle connection for 2 s"),
    ],
)
def test_a_planted_deviation_breaks_the_contract(plain: str, name: str, sentence: str) -> None:
    checks = CHECKS | MODEL_CHECKS
    (check,) = [checks[one] for one in checks if one.startswith(sentence)]
    with proxy(plain, DEVIATIONS[name]) as url:
        try:
            broken = check(ContainerTarget(url)) is not None
        except (OSError, http.client.HTTPException):
            broken = True
    assert broken


@pytest.mark.long
@pytest.mark.parametrize("sentence", MODEL_CHECKS)
def test_the_local_container_keeps_the_contract_of_the_tables_models(
    plain: str, sentence: str
) -> None:
    assert MODEL_CHECKS[sentence](ContainerTarget(plain)) is None


def _named(container: ContainerSetup) -> set[tuple[str, str]]:
    return {(case.group, case.name) for case in container.cases}


def _with_handler(case: Case) -> bool:
    if case.is_multi_model:  # these two of its models have our handler
        return any(name in case.path or name.encode() in case.body for name in ("alpha", "beta"))
    return case.code in ("handler", "code_transforms")


def test_without_our_handler_99_of_100_answers_are_the_same() -> None:
    others = [case for case in CASES if not _with_handler(case)]
    differ = [case for case in others if (case.group, case.name) in CHANGED]
    assert len(differ) <= len(others) / 100


def test_every_difference_is_of_a_case() -> None:
    assert {(case.group, case.name) for case in CASES} >= CHANGED
