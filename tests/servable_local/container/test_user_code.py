from pathlib import Path

import pytest

from servable_local.container.gunicorn.user_code import CodeError, Handler, load
from servable_local.container.image_code import image_code


def _load(source: str, folder: Path) -> Handler:
    inference = folder / "inference.py"
    inference.write_text(source)
    return load(inference, image_code("2.20"))


@pytest.mark.parametrize("source", ["", "def input_handler(data, context): ..."])
def test_code_without_a_whole_handler_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(CodeError, match="defines no handler; define handler"):
        _load(source, tmp_path)


@pytest.mark.parametrize("source", ["def", "1 / 0", "import sys; sys.exit(3)"])
def test_code_that_does_not_import_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(CodeError, match="code/inference.py does not import: "):
        _load(source, tmp_path)


def test_a_handler_is_preferred_to_the_pair(tmp_path: Path) -> None:
    source = (
        "def handler(d, c): return 1\ndef input_handler(d, c): ...\noutput_handler = input_handler"
    )
    assert _load(source, tmp_path)(None, None) == 1  # type: ignore[arg-type]
