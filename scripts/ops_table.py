"""Writes a TensorFlow version's operations into infra/catalog/ops.jsonl and op_versions.json.

    python -m scripts.ops_table 2.20 [2.19 …] [--wheels FOLDER]

Downloads the published wheel (tensorflow-cpu, the newest patch of the version), and reads what
its C++ libraries register in a separate process. Tests which StableHLO they read, and adds what
TensorFlow Serving links besides TensorFlow: the operations of tensorflow_text and of decision
forests. Needs Linux on x86-64 and what requirements/local.txt installs; 1.5 GB in a temporary
folder.
"""

import argparse
import base64
import datetime
import json
import mmap
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from infra.catalog.images import parse_version
from model_packaging.saved_model.graph_file import convert_attribute_value
from scripts.registered_ops import KERNELS, LIBRARIES
from servable_tensors import wire

CATALOG = Path(__file__).resolve().parents[1] / "infra" / "catalog"
# What TensorFlow Serving links beside TensorFlow, from a version on: a wheel, its libraries, and the
# TensorFlow for which that wheel was built.
# Source: tensorflow_serving/model_servers/BUILD (SUPPORTED_TENSORFLOW_OPS) and the versions in
# tensorflow_serving/workspace.bzl of https://github.com/tensorflow/serving, r2.12 to r2.20, read 2026-11-22
ADDED = (
    ("2.12", "tensorflow-text==2.12.1", "tensorflow_text/python/", "2.12"),
    ("2.12", "tensorflow-decision-forests==1.3.0", "tensorflow/ops/inference/", "2.12"),
    ("2.20", "tensorflow-text==2.20.0", "tensorflow_text/python/", "2.20"),
)
# Only the names of the libraries' files matter, and not which Python they were built for.
PYTHONS = ("3.11", "3.12", "3.13", "3.10", "3.14")
# From this version on the C++ libraries are files of their own in the wheel.
OLDEST = "2.12"


class OpsTableError(Exception):
    """The table can't be written; `str()` gives the reason."""


def parse_definitions(ops: bytes, kernels: bytes) -> dict[str, Any]:
    """Return {operation: its row in ops.jsonl}."""
    from tensorflow.core.framework import kernel_def_pb2, op_def_pb2

    cpu: dict[str, list[dict[str, list[int]]]] = {}
    for kernel in kernel_def_pb2.KernelList.FromString(kernels).kernel:
        # Only nodes created at run time use a kernel with a label.
        if kernel.device_type in ("CPU", "DEFAULT") and not kernel.label:
            types = {one.name: sorted(one.allowed_values.list.type) for one in kernel.constraint}
            cpu.setdefault(kernel.op, []).append(types)
    rows = {}
    for op in op_def_pb2.OpList.FromString(ops).op:
        row: dict[str, Any] = {}
        if op.attr:
            row["attributes"] = {each.name: _convert_attribute(each) for each in op.attr}
        if op.name in cpu:
            row["cpu"] = _merge_kernels(cpu[op.name])
        if op.HasField("deprecation"):
            row["removed_in"] = op.deprecation.version
        rows[op.name] = row
    return rows


def _convert_attribute(attribute: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"type": attribute.type}
    if attribute.HasField("default_value"):
        row["default"] = _convert_value(attribute.default_value)
    if attribute.HasField("allowed_values"):
        row["allowed"] = _convert_value(attribute.allowed_values)[1]
    if attribute.has_minimum:
        row["minimum"] = attribute.minimum
    return row


def _convert_value(message: Any) -> list[Any]:
    """Return [kind, value] in the form of the table's file, for comparison with the file."""
    value = convert_attribute_value(wire.AttrValue.FromString(message.SerializeToString()))
    held: list[Any] = json.loads(json.dumps(value))
    return held


def _merge_kernels(kernels: list[dict[str, list[int]]]) -> list[dict[str, list[int]]]:
    """Merge kernels that differ only in the types of one attribute."""
    found = {json.dumps(kernel, sort_keys=True): kernel for kernel in kernels}
    for name in sorted({name for kernel in kernels for name in kernel}):
        groups: dict[str, dict[str, list[int]]] = {}
        for one in found.values():
            rest = {key: types for key, types in one.items() if key != name}
            group = json.dumps([name in one, rest], sort_keys=True)
            if name in one and group in groups:
                types = sorted({*groups[group][name], *one[name]})
                groups[group] = {**rest, name: types}
            else:
                groups[group] = one
        found = {json.dumps(one, sort_keys=True): one for one in groups.values()}
    # A kernel for any type makes the others superfluous.
    return [{}] if {} in found.values() else [found[key] for key in sorted(found)]


# A module as text, and the beginning of a module of a future StableHLO.
_TEXT = b"""module @m { func.func public @main() -> tensor<f32> {
  %0 = stablehlo.constant dense<1.0> : tensor<f32> return %0 : tensor<f32> } }"""
_FUTURE = b"ML\xefR\x0dStableHLO_v99.0.0\x00" + bytes(20)
# The same module as bytecode, by the version of MLIR's bytecode.
_MODULES = Path(__file__).with_name("stablehlo_modules.json")


def write_questions(folder: Path) -> None:
    """Write a graph for each test, whose node "x" runs a StableHLO module."""
    from tensorflow.core.framework import graph_pb2

    modules = json.loads(_MODULES.read_text())["modules"]
    # {name: (version of XlaCallModule, its module)}
    questions = {"oldest": (0, _TEXT), "newest": (10**6, _TEXT), "stablehlo": (5, _FUTURE)}
    for name, module in modules.items():
        questions[f"bytecode-{name}"] = (5, base64.b64decode(module))
    for name, (version, module) in questions.items():
        graph = graph_pb2.GraphDef()
        graph.versions.producer = 1000
        node = graph.node.add(name="x", op="XlaCallModule")
        node.attr["version"].i = version
        node.attr["module"].s = module
        node.attr["Tout"].list.type.append(1)
        node.attr["Sout"].list.shape.add()
        for empty in ("Tin", "dim_args_spec"):
            node.attr[empty].list.SetInParent()
        node.attr["platforms"].list.s.append(b"CPU")
        (folder / f"{name}.graph").write_bytes(graph.SerializeToString())


def _parse_stablehlo(answers: Mapping[str, str]) -> dict[str, Any]:
    """Parse the results of the test graphs; None for what isn't checked, reported, or read."""

    def find_version(question: str, pattern: str) -> str | None:
        match = re.search(pattern, answers[question])
        return match[1] if match else None

    oldest = find_version("oldest", r"Must be >= ([0-9]+)")
    newest = find_version("newest", r"Must be <= ([0-9]+)")
    run = [name for name, answer in answers.items() if name.startswith("bytecode-") and not answer]
    return {
        "xla_call_module_from": int(oldest) if oldest else None,
        "xla_call_module_to": int(newest) if newest else None,
        "mlir_bytecode": max((int(name.partition("-")[2]) for name in run), default=None),
        "stablehlo": find_version("stablehlo", r"using StableHLO_v([0-9.]+)"),
    }


def fetch_wheel(requirement: str, folder: Path) -> Path:
    """Return the wheel of a requirement, from the folder or downloaded into it. Raises OpsTableError."""
    name, version = requirement.split("==")
    pattern = f"{name.replace('-', '_')}-{version.replace('.*', '.[0-9]*')}-*.whl"
    for python in PYTHONS:
        if there := sorted(folder.glob(pattern)):
            return there[-1]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", requirement]
        options = ["--only-binary", ":all:", "--python-version", python, "--dest", str(folder)]
        subprocess.run([*command, *options], check=False, capture_output=True)
    raise OpsTableError(f"found no wheel of {requirement} for Python {', '.join(PYTHONS)}")


def unpack_libraries(version: str, wheels: Path, into: Path) -> str:
    """Extract the C++ libraries and version.h of the wheel; return its version, such as 2.20.0."""
    file = fetch_wheel(f"tensorflow-cpu=={version}.*", wheels)
    with zipfile.ZipFile(file) as archive:
        header = "include/tensorflow/core/public/version.h"
        wanted = {f"tensorflow/{name}" for name in (*LIBRARIES, header)}
        kernels = PurePath("tensorflow/core/kernels", KERNELS).as_posix()
        for name in archive.namelist():
            if name in wanted or PurePath(name).match(kernels):
                (into / Path(name).name).write_bytes(archive.read(name))
    return file.name.split("-")[1]


def _write_registered_ops(folder: Path) -> None:
    command = [sys.executable, "-m", "scripts.registered_ops", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OpsTableError(f"reading {folder} failed: {done.stderr[-2000:]}")


def read_wheel(version: str, wheels: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (rows of a wheel's operations, its row in op_versions.json). Raises OpsTableError."""
    with tempfile.TemporaryDirectory(prefix="servable-ops-") as temporary:
        folder = Path(temporary)
        full = unpack_libraries(version, wheels, folder)
        write_questions(folder)
        _write_registered_ops(folder)
        header = (folder / "version.h").read_text()
        numbers = dict(re.findall(r"(TF_GRAPH_DEF_VERSION\w*) ([0-9]+)", header))
        facts = {
            "tensorflow": f"tensorflow-cpu {full}",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "graph_def": int(numbers["TF_GRAPH_DEF_VERSION"]),
            "min_producer": int(numbers["TF_GRAPH_DEF_VERSION_MIN_PRODUCER"]),
            **_parse_stablehlo({path.stem: path.read_text() for path in folder.glob("*.answer")}),
        }
        rows = parse_definitions((folder / "ops").read_bytes(), (folder / "kernels").read_bytes())
        with (folder / LIBRARIES[-1]).open("rb") as file:
            # Operations of versioned StableHLO, by their names in the library.
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            names = set(re.findall(rb"vhlo\.[a-z0-9_]+_v[0-9]+", data))
    return rows | {name.decode(): {} for name in names}, facts


def read_plugin(requirement: str, place: str, built_for: str, wheels: Path) -> dict[str, Any]:
    """Return the rows of the operations that a wheel adds to its TensorFlow. Raises OpsTableError."""
    with tempfile.TemporaryDirectory(prefix="servable-ops-") as temporary:
        folder = Path(temporary)
        unpack_libraries(built_for, wheels, folder)
        with zipfile.ZipFile(fetch_wheel(requirement, wheels)) as archive:
            for name in archive.namelist():
                if place in name and name.endswith(".so"):
                    (folder / f"added-{Path(name).name}").write_bytes(archive.read(name))
        _write_registered_ops(folder)
        before = parse_definitions((folder / "ops").read_bytes(), b"")
        ops, kernels = ((folder / name).read_bytes() for name in ("all-ops", "all-kernels"))
        after = parse_definitions(ops, kernels)
    return {op: {**row, "from": requirement} for op, row in after.items() if op not in before}


# ops.jsonl: of each operation the definitions, each from the version on in which it is new.
def as_rows(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return {operation: {version: its definition from then on, or None if it was removed}}."""
    rows: dict[str, dict[str, Any]] = {}
    for op in sorted({name for table in tables.values() for name in table}):
        before = None
        for version in sorted(tables, key=parse_version):
            now = tables[version].get(op)
            if now != before:
                rows.setdefault(op, {})[version] = now
            before = now
    return rows


def as_tables(rows: Mapping[str, Mapping[str, Any]], known: Iterable[str]) -> dict[str, Any]:
    """Return the reverse of `as_rows`: {version: {operation: definition}}."""
    found: dict[str, dict[str, Any]] = {version: {} for version in known}
    for op, by_version in rows.items():
        for version, table in found.items():
            since = [one for one in by_version if parse_version(one) <= parse_version(version)]
            if since and by_version[since[-1]] is not None:
                table[op] = by_version[since[-1]]
    return found


def as_text(rows: Mapping[str, Any]) -> str:
    """Return a line of JSON for each operation: [its name, {version: definition}]."""
    return "".join(json.dumps([op, rows[op]]) + "\n" for op in sorted(rows))


def main() -> str | None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("versions", nargs="*", help="TensorFlow versions, such as 2.20")
    parser.add_argument("--wheels", type=Path, help="Folder of wheels (default: temporary)")
    given = parser.parse_args()
    if old := [one for one in given.versions if parse_version(one) < parse_version(OLDEST)]:
        return f"{old[0]}: wheels before {OLDEST} have no readable C++ library; use a later version"
    ops_file, versions_file = CATALOG / "ops.jsonl", CATALOG / "op_versions.json"
    facts = json.loads(versions_file.read_text())
    known = dict(json.loads(line) for line in ops_file.read_text().splitlines())
    tables = as_tables(known, facts["versions"])
    plugins: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="servable-wheels-") as temporary:
        wheels = given.wheels or Path(temporary)
        for version in given.versions:
            short = ".".join(version.split(".")[:2])
            try:
                rows, row = read_wheel(short, wheels)
                # The last of a distribution is the one that a version links.
                older = (one for one in ADDED if parse_version(one[0]) <= parse_version(short))
                linked = {one[1].split("==")[0]: one for one in older}
                for distribution, (_, requirement, place, built_for) in linked.items():
                    if requirement not in plugins:
                        plugins[requirement] = read_plugin(requirement, place, built_for, wheels)
                    rows = {**plugins[requirement], **rows}
                    row[distribution] = requirement.split("==")[1]
            except OpsTableError as refusal:
                return f"{version}: {refusal}"
            tables[short], facts["versions"][short] = rows, row
            print(f"{short}: {len(rows)} operations, StableHLO {row['stablehlo']}")
    ordered = sorted(facts["versions"], key=parse_version)
    facts["versions"] = {version: facts["versions"][version] for version in ordered}
    ops_file.write_text(as_text(as_rows(tables)), encoding="utf-8")
    versions_file.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main())
