"""Packs everything into a synthesized cloud assembly (-c pack=synth), which is then independent.

An archive's asset is a command. The CDK CLI runs the command when it publishes, with this
project's Python, in this project's folder. An assembly that is deployed on a different computer,
after an approval, has neither. Therefore this module runs the commands, and the manifests name
their files. Templates name the same objects either way (decision 0002).
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def pack(assembly: Path) -> Iterator[str]:
    """Pack each asset that publishing would pack, and yield its path and display name.

    Exits with the command's own message if a command fails.
    """
    for manifest in sorted(assembly.glob("**/*.assets.json")):
        content = json.loads(manifest.read_text(encoding="utf-8"))
        for name, asset in content.get("files", {}).items():
            command = asset["source"].get("executable")
            if command is None:
                continue
            ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if ran.returncode:
                sys.exit(f"{asset.get('displayName', name)}: wasn't packed; see the error above")
            target = manifest.parent / "packed" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            # A copy, because the files of a model can change after this.
            shutil.copyfile(ran.stdout.splitlines()[-1], target)
            path = target.relative_to(manifest.parent).as_posix()
            asset["source"] = {"path": path, "packaging": "file"}
            yield f"{path}: {asset.get('displayName', name)}"
        manifest.write_text(json.dumps(content, indent=2), encoding="utf-8")
