"""Pack one archive when the CDK CLI publishes it, and print the archive's path.

    python model_packaging REQUEST

REQUEST is the JSON that `publishing.build_command` writes at synth. The CDK CLI reads the last
line of standard output as the path of the file to upload. The command calls this folder by its
path instead of with -m, because the CLI may run in any folder.
"""

import json
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model_packaging.archive import provide_archive
from model_packaging.refusal import PackagingError

if __name__ == "__main__":
    try:
        print(provide_archive(json.loads(sys.argv[1])))
    except PackagingError as refusal:
        sys.exit(str(refusal))
    except KeyboardInterrupt:
        sys.exit(130)
