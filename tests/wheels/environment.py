"""A virtual environment with our wheels and nothing but what they require, made without an index.

    python -m tests.wheels.environment               # how large the base is, how soon it helps
    python -m tests.wheels.environment FOLDER 'servable-endpoints[synth]'    # makes one, to try things

Our wheels are installed by pip. What they require is linked from the environment that runs this:
the files of each distribution that the wheels' metadata asks for, and no others.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator, Sequence
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.build_wheels import build
from servable.new.project_files import DISTRIBUTION, build_wheel

MOST_MEGABYTES = 60
MOST_HELP_SECONDS = 0.3


def make(folder: Path, wheels: Path, wanted: Sequence[str]) -> Path:
    """Makes the environment `folder`; returns its folder of programs.

    `wheels`: where ours lie. `wanted`: requirements, as `servable-endpoints[aws]`. Raises
    `importlib.metadata.PackageNotFoundError` and ValueError for what this environment has not.
    """
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    (site,) = (folder / "lib").glob("python*/site-packages")
    own = requirements_of(wheels)
    names = set(required(wanted, own))
    for name in sorted(names - set(own)):
        _link(distribution(name), site, programs)
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet"]
    pip += ["--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    pip += ["--find-links", str(wheels), *sorted(names & set(own))]
    subprocess.run(pip, check=True)
    return programs


def requirements_of(wheels: Path) -> dict[str, list[str]]:
    """Name -> what the wheel's metadata requires."""
    found = {}
    for file in wheels.glob("servable*.whl"):
        with zipfile.ZipFile(file) as wheel:
            (name,) = [one for one in wheel.namelist() if one.endswith(".dist-info/METADATA")]
            said = Parser().parsestr(wheel.read(name).decode())
        found[str(canonicalize_name(said["Name"]))] = said.get_all("Requires-Dist") or []
    return found


def required(wanted: Sequence[str], own: dict[str, list[str]]) -> Iterator[str]:
    """The names of all that must be there, extras followed; some twice."""
    queue, seen = [Requirement(one) for one in wanted], set()
    while queue:
        one = queue.pop()
        name = canonicalize_name(one.name)
        if (name, frozenset(one.extras)) in seen:
            continue
        seen.add((name, frozenset(one.extras)))
        yield name
        if (requires := own.get(name)) is None:
            there = distribution(name)
            if not one.specifier.contains(there.version, prereleases=True):
                raise ValueError(f"{name} {there.version} is installed here; required: {one}")
            requires = there.requires or []
        for needed in map(Requirement, requires):
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *one.extras)):
                queue.append(needed)


def _link(installed: Distribution, site: Path, programs: Path) -> None:
    """The files of one distribution, compiled ones too; its programs get the environment's Python."""
    for file in installed.files or ():
        source, target = Path(str(installed.locate_file(file))), site / file
        if not source.is_file() or target.exists():
            continue  # CDK's distributions list files of each other
        if "bin" in file.parts and file.parts[0] == "..":
            target = programs / file.name
            first, _, rest = source.read_bytes().partition(b"\n")
            if first.startswith(b"#!") and b"python" in first:
                target.write_bytes(f"#!{programs / 'python'}\n".encode() + rest)
                target.chmod(0o755)
                continue
        elif file.parts[0] == "..":
            continue  # manual pages and the like
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copy2(source, target)


def repacked(name: str, folder: Path) -> None:
    """Writes an installed distribution into `folder` as a wheel, of which an installer makes it again."""
    installed = distribution(name)
    files = {
        file.as_posix(): file.read_binary()
        for file in installed.files or ()
        if ".." not in file.parts and file.suffix != ".pyc" and file.name != "direct_url.json"
    }
    (wheel,) = (text for file, text in files.items() if file.endswith(".dist-info/WHEEL"))
    # py2-none-any and py3-none-any are one name: the last is that of any Python here.
    *_, tag = (line.split()[1] for line in wheel.decode().splitlines() if line[:4] == "Tag:")
    normal = canonicalize_name(name).replace("-", "_")
    (folder / f"{normal}-{installed.version}-{tag}.whl").write_bytes(build_wheel(files))


def megabytes(folder: Path) -> float:
    """What its files take on the disk, as du counts, without the caches of Python."""
    files = (file for file in folder.rglob("*") if "__pycache__" not in file.parts)
    return sum(file.lstat().st_blocks * 512 for file in files) / 1e6


def help_seconds(programs: Path) -> float:
    """How long `servable --help` takes; the median of some, after one that fills the caches."""
    took = []
    for _ in range(12):
        start = time.perf_counter()
        subprocess.run([programs / "servable", "--help"], check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="left out, the base is measured")
    parser.add_argument(
        "wanted", nargs="*", default=[DISTRIBUTION], help="as servable-endpoints[synth]"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="servable-environment-") as temporary:
        build(Path(temporary, "wheels"))
        folder = given.folder or Path(temporary, "environment")
        programs = make(folder, Path(temporary, "wheels"), given.wanted)
        size, seconds = megabytes(folder), help_seconds(programs)
    print(f"{size:.1f} MB on the disk; the base may take {MOST_MEGABYTES} MB")
    print(f"{seconds:.2f} s for `servable --help`, of at most {MOST_HELP_SECONDS} s")
    fits = size <= MOST_MEGABYTES or given.folder is not None
    return int(not fits or seconds > MOST_HELP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
