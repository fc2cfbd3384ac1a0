"""What a benchmark ran on."""

import os
import platform
import time
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Ask before the run: afterwards the load average is the benchmark's own."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":")[1].strip() for line in cpu if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": models[0] if models else platform.machine(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d"),
    }
