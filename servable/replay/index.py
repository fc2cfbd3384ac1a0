"""Index the lines of captured requests, sorted by time.

A first pass reads every line, reports what it skips, and keeps 40 bytes of each request. Bodies
are read again when they are sent. Files of several variants and hours are thus merged in any
order, the number of requests is known before the first is sent, and memory doesn't grow with
bodies.
"""

import datetime
import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from servable.captured.lines import CapturedRequest, CaptureLineError, read_line
from servable.console.terminal import escape_name
from servable.replay.places import (
    CapturePlace,
    PlaceError,
    SkipCount,
    SkippedLines,
    iterate_capture_files,
    iterate_captured_lines,
)

# An endpoint has ten: https://docs.aws.amazon.com/general/latest/gr/sagemaker.html (2026-11-22).
_MOST_VARIANTS = 100
# A few reports a second, which cost almost nothing.
_LINES_PER_REPORT = 2000
Report = Callable[[int, int], None]
"""(bytes read, bytes in all)"""


class CaptureIndex:
    """The captured requests, sorted by time; iterating reads each."""

    def __init__(self, place: CapturePlace, report: Report = lambda done, of: None) -> None:
        """Read the place once. Raises PlaceError."""
        self._place = place
        self._skipped = SkippedLines()
        self.lines_read = 0
        """Lines of all files that were read, skipped ones included."""
        self.variants: Counter[str] = Counter()
        """Variant -> requests that it answered."""
        captured = array("d")
        locations = array("Q")  # file, line, offset, size of each request, one after the other
        self._files = list(iterate_capture_files(place, self._skipped))
        total, done = sum(file.size for file in self._files), 0
        for number, file in enumerate(self._files):
            for line, offset, content in iterate_captured_lines(place, file, self._skipped):
                if line % _LINES_PER_REPORT == 0:
                    report(done + offset, total)
                self.lines_read += 1
                try:
                    request = read_line(content, file=file.name, number=line)
                except CaptureLineError as error:
                    self._skipped.add(file.name, line, str(error))
                    continue
                known = len(self.variants) < _MOST_VARIANTS or request.variant in self.variants
                variant = request.variant or "without a variant"
                self.variants[variant if known else "other variants"] += 1
                captured.append(request.time)
                locations.extend((number, line, offset, len(content)))
            done += file.size
            report(done, total)
        times, places = np.asarray(captured), np.asarray(locations).reshape(-1, 4)
        # A captured second keeps the order of its lines.
        order = np.lexsort((places[:, 1], places[:, 0], times))
        moved = spread_times(times[order])
        again = np.argsort(moved, kind="stable")
        self._sorted = places[order][again]
        self.times: NDArray[np.float64] = moved[again]
        """Time at which each was sent, in seconds since 1970, rising."""

    @property
    def skip_counts(self) -> list[SkipCount]:
        """Return the skipped lines, by file and reason."""
        return self._skipped.counts

    def __len__(self) -> int:
        return len(self.times)

    def find_location(self, number: int) -> tuple[str, int]:
        """Return (file, line) of a request, without reading it."""
        file, line = (int(value) for value in self._sorted[number][:2])
        return self._files[file].name, line

    def read_request(self, number: int) -> CapturedRequest:
        """Read a request. Raises PlaceError, also if the file has changed since the first pass."""
        file, line, offset, size = (int(value) for value in self._sorted[number])
        name = self._files[file].name
        content = self._place.read(self._files[file], offset, size)
        try:
            return read_line(content, file=name, number=line)
        except CaptureLineError:
            raise PlaceError(
                f"{name}, line {line}: the file has changed since it was read"
            ) from None

    def __iter__(self) -> Iterator[CapturedRequest]:
        return map(self.read_request, range(len(self)))


def spread_times(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spread times that are whole seconds evenly over their second.

    `times` must be in ascending order. SageMaker writes whole seconds; sent as written, all
    requests of a second would be sent at once.
    """
    seconds, first, counts = np.unique(times, return_index=True, return_counts=True)
    shares = (np.arange(len(times)) - np.repeat(first, counts) + 0.5) / np.repeat(counts, counts)
    whole = np.repeat(seconds == np.floor(seconds), counts)
    moved: NDArray[np.float64] = np.where(whole, times + shares, times)
    return moved


_SHOWN_VARIANTS = 5
# A shorter gap may be a lull in the traffic, or a deployment.
_LEAST_GAP_SECONDS = 600.0


def list_capture_notes(index: CaptureIndex, shadows: Collection[str]) -> Iterator[str]:
    """Yield notes on the captured variants, on repeated requests, and on a long gap.

    SageMaker captures nothing while an instance's disk is full, and doesn't report it: it looks
    as if there had been no requests. `shadows`: names of the environment's shadow variants.
    Source:
    https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html
    (2026-11-24): capturing stops at high levels of disk usage; disk utilization should stay below
    75 %.
    """
    counts = index.variants
    if len(counts) > 1:
        several = [f"{escape_name(name)} {n:,}" for name, n in counts.most_common(_SHOWN_VARIANTS)]
        yield f"captured by variant: {', '.join(several)}"
        for name in sorted(shadows & counts.keys()):
            yield (
                f"variant {name} is a shadow, so its {counts[name]:,} requests repeat those of another "
                "variant; pass the folder or prefix of one variant to --captured"
            )
    gaps = np.diff(index.times)
    if len(gaps) < 2:
        return
    longest, at = float(gaps.max()), int(gaps.argmax())
    # Hardly one recording in 1,000 of requests at random moments has such a gap.
    if longest > max(_LEAST_GAP_SECONDS, float(gaps.mean()) * math.log(1000 * len(gaps))):
        began = format_utc(float(index.times[at]))
        yield (
            f"nothing was captured in the {longest / 60:,.0f} minutes from {began}: no requests came, or the "
            "instance's disk was too full to capture (check DiskUtilization, which should stay below 75 %)"
        )


def format_utc(seconds: float) -> str:
    """Format a time for a message, for example "2026-11-21 09:00:00 UTC"."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
