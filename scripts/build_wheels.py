"""Build the wheels, offline: `python -m scripts.build_wheels OUT [--repository ADDRESS]`.

Each is built from a copy of the packages, because setuptools writes next to the files that it
reads. The same sources give the same bytes, whatever the checkout's time, path, and permissions.
"""

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path

from servable import __version__
from servable.new.project_files import DISTRIBUTION, build_wheel

ROOT = Path(__file__).resolve().parents[1]
# The wheels, each after those that it needs -> the folder of its pyproject.toml.
WHEELS = {
    "servable-runtime": "packages/servable-runtime",
    "servable-scaling": "packages/servable-scaling",
    "servable-client": "packages/servable-client",
    "servable-local": "packages/servable-local",
    DISTRIBUTION: ".",
}
# Those that a project's requirements.txt names, with their hashes.
OF_A_PROJECT = ("servable-runtime", "servable-scaling", "servable-client")
REQUIREMENTS = "servable/new/template/requirements.txt"
_LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
PACKAGES = sorted({*_LINTER["root_packages"]} - {"benchmarks", "scripts"})
# Package -> its folder: a wheel of its own, or the main one.
FOLDERS = {file.parent.name: file.parent for file in ROOT.glob("packages/*/*/__init__.py")}
FOLDERS |= {name: ROOT / name for name in PACKAGES if name not in FOLDERS}
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
_REQUIRED = re.compile(r'"(servable-[a-z-]+(?:\[\w+\])?)"(?=[],])')
_LINK = re.compile(r"(!?)(\[[^]]*\])\((?![\w+.-]+:|#)([^)\s]+)\)")


def expand_links(page: str, folder: str, tree: str) -> str:
    """Return a Markdown page's text, with relative links from `folder` as addresses.

    A package index shows the page alone. `tree` is https://HOST/OWNER/NAME/{}/REVISION, where {}
    is blob for a page and raw for an image.
    """

    def expand_link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[3]))
        return f"{match[1]}{match[2]}({tree.format('raw' if match[1] else 'blob')}/{path})"

    return _LINK.sub(expand_link, page)


def _write_hashes(requirements: Path, out: Path) -> None:
    """Write new projects' requirements.txt; `servable new` fills in the hash of its own wheel."""
    lines = [
        "# What checks and deploys, by version and hash: pip rejects any other file. Of its extra `vendor`",
        "# uv is below; pip is that of the environment.",
        f"{DISTRIBUTION}[aws,synth]==@version@ \\",
        "    --hash=sha256:@sha256@",
    ]
    for name in OF_A_PROJECT:
        (file,) = out.glob(f"{name.replace('-', '_')}-{__version__}-*.whl")
        hexdigest = sha256(file.read_bytes()).hexdigest()
        lines += [f"{name}==@version@ \\", f"    --hash=sha256:{hexdigest}"]
    lock = (ROOT / "requirements.txt").read_text(encoding="utf-8").partition("\n")[2]
    requirements.write_text("\n".join([*lines, lock]), encoding="utf-8")


def build(out: Path, repository: str | None = None) -> list[Path]:
    """Build the wheels into `out`, and return their files. Raises RuntimeError.

    `repository` is the address of the sources, such as https://github.com/OWNER/NAME. A package
    index shows it, and links in the description lead to its tag vVERSION.
    """
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="servable-wheels-") as temporary:
        copy = Path(temporary)
        for name in (*(name for name in PACKAGES if FOLDERS[name].parent == ROOT), "packages"):
            ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(ROOT / name, copy)
        # The address of the sources is in every pyproject.toml and README.md of the copy.
        for folder in WHEELS.values() if repository else ():
            project, page = copy / folder / "pyproject.toml", copy / folder / "README.md"
            text = project.read_text(encoding="utf-8")
            tree = f"{repository}/{{}}/v{__version__}"
            urls = f'[project]\nurls.Repository = "{repository}"\n'
            project.write_text(text.replace("[project]\n", urls, 1), encoding="utf-8")
            described = expand_links(page.read_text(encoding="utf-8"), folder, tree)
            page.write_text(described, encoding="utf-8")
        for place in WHEELS.values():
            if not (copy / place / "LICENSE").exists():
                shutil.copy2(ROOT / "LICENSE", copy / place)
        command = [sys.executable, "-c", BUILD, str(out)]
        for wheel, place in WHEELS.items():
            # Each of our wheels that another requires is of this version.
            project = copy / place / "pyproject.toml"
            pinned = _REQUIRED.sub(rf'"\1=={__version__}"', project.read_text(encoding="utf-8"))
            project.write_text(pinned, encoding="utf-8")
            if wheel == DISTRIBUTION:
                _write_hashes(copy / REQUIREMENTS, out)
            ran = subprocess.run(command, cwd=copy / place, capture_output=True, text=True)
            if ran.returncode:
                raise RuntimeError(f"{wheel}: setuptools failed:\n{ran.stdout}{ran.stderr}")
            (file,) = out.glob(f"{wheel.replace('-', '_')}-{__version__}-*.whl")
            with zipfile.ZipFile(file) as built:
                files = {name: built.read(name) for name in built.namelist()}
            file.write_bytes(build_wheel(files))
    return sorted(out.glob("servable*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the wheels without a package index.")
    parser.add_argument("out", metavar="OUT", type=Path, help="Folder for the wheels.")
    parser.add_argument("--repository", help="URL of the sources, for links on PyPI.")
    options = parser.parse_args()
    for file in build(options.out, options.repository):
        print(f"{file}: {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
