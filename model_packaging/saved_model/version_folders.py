"""The versions of a SavedModel: the folders that the container would load."""

from pathlib import Path

from model_packaging.refusal import PackagingError


def versions(folder: Path) -> list[Path]:
    """The version folders, lowest first.

    The container loads `<version>/saved_model.pb`, where a version is all digits; it
    ignores every other folder and then waits for a model that never comes.
    Raises `PackagingError` where there is nothing it would load.
    """
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise PackagingError(
            folder, f"the SavedModel folder {problem}", "write the folder of its versions"
        )
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    found = sorted((path for path in inside if _is_version(path)), key=lambda path: int(path.name))
    if not found:
        raise PackagingError(
            folder, "holds no version folder, named with digits only", _remedy(folder)
        )
    for version in found:
        if not (version / "saved_model.pb").is_file():
            raise PackagingError(
                version, "holds no saved_model.pb", "export the SavedModel into it"
            )
    return found


def _is_version(path: Path) -> bool:
    return path.name.isascii() and path.name.isdigit()


def _remedy(folder: Path) -> str:
    if (folder / "saved_model.pb").is_file():
        return f"move what is in it to {folder.name}/1/, or set version = 1 beside saved_model"
    return f"export the SavedModel to {folder.name}/1/"
