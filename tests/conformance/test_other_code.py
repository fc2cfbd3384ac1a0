"""Code without a handler of the usual form: a pair of functions, or only a lib/; and warm-up records."""

from pathlib import Path

import pytest

from servable_local.container.launch import LaunchError, launch
from tests.conformance import archives
from tests.conformance.asking import Endpoint, eventually
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}


def test_input_and_output_handlers_stand_around_the_model_that_is_found(pair: Endpoint) -> None:
    assert pair.post([[1.0, 2.0]]).json() == [[3.0, 6.0]]
    # export/numbers in the archive: named after the folder of its versions.
    assert pair.post([[1.0, 2.0]]).status_code == 200


def test_a_worker_that_is_busy_too_long_is_killed(pair: Double) -> None:
    # The model server hangs, the sync worker waits for it, Gunicorn's patience is 3 s.
    before = pair.process.parts.workers
    pair.process.faults.freeze("model server")
    status = pair.post([[1.0, 2.0]]).status_code
    pair.process.faults.thaw("model server")
    assert status == 500
    assert eventually(lambda: pair.process.parts.workers not in ((), before))


def test_an_answer_that_takes_longer_than_nginx_waits_is_504(lib_alone: Double) -> None:
    # The gevent worker waits, but is not busy: Gunicorn lets it live.
    lib_alone.process.faults.freeze("model server")
    status = lib_alone.post(ROW).status_code
    lib_alone.process.faults.thaw("model server")
    assert status == 504


def test_without_inference_py_rows_are_passed_on_unconverted(lib_alone: Endpoint) -> None:
    assert lib_alone.predictions(ROW) == [[3.0, 6.0]]
    for body, kind in [(b"1.0,2.0", "text/csv"), (b"[[1.0, 2.0]]", "application/json")]:
        # The image's trap: Gunicorn is on, so NGINX converts no more.
        assert lib_alone.post(body, kind).status_code == 400


@pytest.mark.usefixtures("pair")
def test_every_record_is_replayed(folder: Path) -> None:
    # The first version of its model has three.
    assert "version 1: loaded in" in (said := (folder / "pair.log").read_text())
    assert "3 warm-up records replayed" in said


@pytest.mark.usefixtures("start")
def test_a_record_that_fails_keeps_the_model_from_loading(folder: Path) -> None:
    content = archives.warm_up("x", "y")
    folders = {"numbers/1": archives.MODELS / "numbers" / "1"}
    files = {f"numbers/1/{archives.WARM_UP}": content}
    archive = archives.pack(folder / "warm.tar.gz", files, folders)
    with pytest.raises(LaunchError) as refusal:
        launch(archive, {}).close()
    assert "record 2: inputs ['y'], not ['x']" in str(refusal.value)
