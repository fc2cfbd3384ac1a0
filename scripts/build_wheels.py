"""Builds the wheels, offline: `python -m scripts.build_wheels OUT [--repository ADDRESS]`.

Each is built from a copy of the packages: setuptools writes beside what it reads. The same sources
give the same bytes, whatever the checkout's time, place and permissions.
"""

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The wheels, each after those that it needs -> the folder of its pyproject.toml.
WHEELS = {
    "servable-tensors": "wheels/servable-tensors",
    "servable-client": "wheels/servable-client",
    "servable-local-code": "wheels/servable-local-code",
    "servable-local": "wheels/servable-local",
    "servable": ".",
}
_LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
PACKAGES = sorted({*_LINTER["root_packages"]} - {"benchmarks", "scripts"})
# A zip's times begin here.
EPOCH = "315532800"
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
_LINK = re.compile(r"(!?)(\[[^]]*\])\((?![\w+.-]+:|#)([^)\s]+)\)")


def with_addresses(page: str, folder: str, tree: str) -> str:
    """The text of a Markdown page in `folder` of the repository, its relative links as addresses.

    A package index shows the page alone. `tree`: https://HOST/OWNER/NAME/{}/REVISION, where {} is
    blob for a page and raw for a picture.
    """

    def address(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[3]))
        return f"{match[1]}{match[2]}({tree.format('raw' if match[1] else 'blob')}/{path})"

    return _LINK.sub(address, page)


def build(out: Path, repository: str | None = None) -> list[Path]:
    """Build the wheels into `out`, and return their files. Raises RuntimeError.

    `repository`: address of the sources, as https://github.com/OWNER/NAME; a package index shows it,
    and links in the description lead to its tag vVERSION.
    """
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="servable-wheels-") as temporary:
        copy = Path(temporary)
        for name in (*PACKAGES, "wheels"):
            ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(ROOT / name, copy)
        # Where the sources lie stands in every pyproject.toml and README.md of the copy.
        for folder in WHEELS.values() if repository else ():
            project, page = copy / folder / "pyproject.toml", copy / folder / "README.md"
            text = project.read_text(encoding="utf-8")
            tree = f"{repository}/{{}}/v{tomllib.loads(text)['project']['version']}"
            urls = f'[project]\nurls.Repository = "{repository}"\n'
            project.write_text(text.replace("[project]\n", urls, 1), encoding="utf-8")
            described = with_addresses(page.read_text(encoding="utf-8"), folder, tree)
            page.write_text(described, encoding="utf-8")
        for place in WHEELS.values():
            if not (copy / place / "LICENSE").exists():
                shutil.copy2(ROOT / "LICENSE", copy / place)
        for file in copy.rglob("*"):  # a wheel keeps permissions, which a checkout's umask decides
            file.chmod(0o755 if file.is_dir() else 0o644)
        command = [sys.executable, "-c", BUILD, str(out)]
        env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        for wheel, place in WHEELS.items():
            ran = subprocess.run(
                command, cwd=copy / place, env=env, umask=0o022, capture_output=True, text=True
            )
            if ran.returncode:
                raise RuntimeError(f"{wheel}: setuptools failed:\n{ran.stdout}{ran.stderr}")
    return sorted(out.glob("servable*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the wheels, without any index.")
    parser.add_argument("out", metavar="OUT", type=Path, help="Folder for the wheels.")
    parser.add_argument("--repository", help="Address of the sources; links on PyPI lead there.")
    options = parser.parse_args()
    for file in build(options.out, options.repository):
        print(f"{file}: {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
