"""The simulation of a day of traffic with policies, alarms and instances, minute by minute.

Pure.
"""

from typing import Literal

# The shapes of rehearsal/traffic.py, for environment files, which are loaded without it.
ProfileName = Literal["spike", "daily", "ramp", "launch"]
