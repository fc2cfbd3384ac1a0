import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from servable_local.container.gunicorn.user_code import CodeError, Handler, load_handler
from servable_local.container.image_code import find_image_code


def _load(source: str, folder: Path, problems: Sequence[str] = ()) -> Handler:
    inference = folder / "inference.py"
    inference.write_text(source)
    return load_handler(inference, find_image_code("2.20"), problems)


def test_code_that_does_not_import_or_has_no_handler_is_refused(tmp_path: Path) -> None:
    for source in ["", "def input_handler(data, context): ..."]:
        with pytest.raises(CodeError, match="defines no handler; define handler"):
            _load(source, tmp_path)
    for source in ["def", "1 / 0", "import sys; sys.exit(3)"]:
        with pytest.raises(CodeError, match="code/inference.py cannot be imported: "):
            _load(source, tmp_path)


def test_a_failed_import_names_the_place_and_both_pythons(tmp_path: Path) -> None:
    (tmp_path / "transforms.py").write_text("\n\nimport nowhere_at_all\n")
    source = "import runpy\nrunpy.run_path(__file__.replace('inference', 'transforms'))"
    with pytest.raises(CodeError) as refused:
        _load(source, tmp_path)
    assert str(refused.value) == (
        "code/inference.py cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all' "
        f"(code/transforms.py, line 3; Python {platform.python_version()} of this computer, where the "
        "image has 3.12)"
    )


@pytest.mark.parametrize("source", ["import fast.core", "from fast import core"])
def test_a_module_of_another_python_is_named_with_its_file(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lib" / "fast" / "core.cpython-399-x86_64-linux-gnu.so"
    file.parent.mkdir(parents=True)
    file.touch()
    (file.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "lib")
    with pytest.raises(CodeError) as refused:
        _load(source, tmp_path)
    del sys.modules["fast"]
    assert f"; module fast.core: code/lib/fast/{file.name}; Python" in str(refused.value)


def test_packages_for_another_python_are_named_where_an_import_fails(tmp_path: Path) -> None:
    for source, said in [("import nowhere_at_all", True), ("1 / 0", False)]:
        with pytest.raises(CodeError) as refused:
            _load(source, tmp_path, ["code/lib/fast: is compiled for another Python"])
        assert ("\ncode/lib/fast: is compiled" in str(refused.value)) is said
    source = (
        "def handler(d, c): return 1\ndef input_handler(d, c): ...\noutput_handler = input_handler"
    )
    assert _load(source, tmp_path)(None, None) == 1  # type: ignore[arg-type]
