"""The local container is asked what the image's own code was asked, and has to answer the same.

What our handler answers otherwise since then stands in changed.toml, each with its reason.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from servable.conformance.conformance import asked
from servable.conformance.observed_cases import Case, ContainerSetup, cases, changed, containers
from servable.conformance.prepare import prepare
from servable.conformance.targets import ContainerTarget
from servable_local.container.launch import launch

CASES = cases()
CONTAINERS = {f"{one.image} {one.name}": one for one in containers(CASES)}
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
    with launch(archive, container.variables, tensorflow=container.image) as process:
        yield ContainerTarget(process.url, str(folder / container.name))


@pytest.mark.long
@pytest.mark.parametrize("name", CONTAINERS)
def test_the_local_container_answers_as_the_image_did(name: str, local: ContainerTarget) -> None:
    container = CONTAINERS[name]
    wrong = {
        (case.group, case.name) for case, answer in asked(local, container) if answer != case.answer
    }
    assert wrong == CHANGED & _named(container)


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
