"""A file that a command creates, as an asset of a stack.

The command runs when the asset is published, or during synthesis for a pipeline.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import FileAssetLocation

# A key of the app's context: true if the publisher has only the cloud assembly, such as the CodeBuild
# projects of CDK Pipelines, which have neither this Python nor the model's files.
# https://docs.aws.amazon.com/cdk/v2/guide/cdk-pipeline.html (2026-11-24)
PACK_AT_SYNTH = "servable:pack-at-synth"


def add_file_asset(
    stack: cdk.Stack, source_hash: str, command: Sequence[str], display_name: str
) -> FileAssetLocation:
    """Add an asset named after `source_hash`; the command prints the path of its file.

    The CDK CLI runs the command when it publishes the asset. With PACK_AT_SYNTH it runs now, and
    the file is in the cloud assembly. Raises RuntimeError with the command's output.
    """
    if stack.node.try_get_context(PACK_AT_SYNTH) not in (True, "true"):
        return stack.synthesizer.add_file_asset(
            source_hash=source_hash, executable=list(command), display_name=display_name
        )
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{display_name}: {ran.stderr.strip() or ran.stdout.strip()}")
    stage = cdk.Stage.of(stack)
    assert stage is not None  # a stack is in an app
    # Without an ending, which would be appended to the object's name.
    name = f"servable-{hashlib.sha256(source_hash.encode()).hexdigest()}"
    shutil.copyfile(ran.stdout.strip(), Path(stage.outdir, name))
    packaging = cdk.FileAssetPackaging.FILE
    return stack.synthesizer.add_file_asset(
        source_hash=source_hash, file_name=name, packaging=packaging, display_name=display_name
    )
