"""Written beside its target and renamed when whole."""

from pathlib import Path

from model_packaging.beside import open_atomically


def test_until_it_is_whole_a_file_has_no_name(tmp_path: Path) -> None:
    with open_atomically(tmp_path / "target") as file:
        file.write(b"half")
        assert not (tmp_path / "target").exists()


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".servable-0123.part").write_bytes(b"half")
    with open_atomically(tmp_path / "target") as file:
        file.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_what_others_write_is_left_alone(tmp_path: Path) -> None:
    with open_atomically(tmp_path / "first") as first:
        first.write(b"first")
        with open_atomically(tmp_path / "second") as second:
            second.write(b"second")
    assert (tmp_path / "first").read_bytes() == b"first"

    (tmp_path / "film.part").write_bytes(b"theirs")
    with open_atomically(tmp_path / "target") as file:
        file.write(b"whole")
    assert (tmp_path / "film.part").exists()
