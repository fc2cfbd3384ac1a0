"""The configuration that clients of an embedded AWS read, in the place of the user's own."""

import shutil
from pathlib import Path

from servable_local.aws.state_file import make_private

# boto3 and the AWS CLI: left out, URLs for S3 are presigned with Signature Version 2.
_CONFIG = """\
[default]
s3 =
    signature_version = s3v4
"""


def write_client_settings(folder: Path) -> None:
    """Anew: nothing that a client left there for an earlier run is believed."""
    shutil.rmtree(folder, ignore_errors=True)
    make_private(folder)
    # The CDK CLI remembers there which account an access key belongs to.
    make_private(folder / "cdk")
    (folder / "config").write_text(_CONFIG, encoding="utf-8")
    (folder / "credentials").write_text("", encoding="utf-8")
