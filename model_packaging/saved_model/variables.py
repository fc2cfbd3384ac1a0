"""variables/: the index and the data files that it says there are."""

from pathlib import Path

from google.protobuf.message import DecodeError

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.graph_file import refuse_pointer
from model_packaging.saved_model.sorted_table import DamagedTableError, entries
from servable_tensors import wire
from servable_tensors.wire_fields import WireError

_AGAIN = "export the SavedModel again, or copy it again"


def variable_bytes(version: Path, *, needed: bool) -> int:
    """Size of the data files, in bytes; 0 where there are no variables. Raises `PackagingError`, OSError.

    `needed`: the graph has variables. TensorFlow loads such a model without an index
    in silence, and every prediction then fails on an uninitialised variable.
    """
    index = version / "variables" / "variables.index"
    if not index.is_file():
        if needed:
            raise PackagingError(index, "does not exist, but the graph has variables", _AGAIN)
        return 0
    refuse_pointer(index)
    total = 0
    for shard, least in _least_sizes(index).items():
        if not shard.is_file():
            raise PackagingError(shard, f"does not exist, but {index.name} refers to it", _AGAIN)
        refuse_pointer(shard)
        size = shard.stat().st_size
        if size < least:
            problem = f"is truncated: {size:,} bytes where {index.name} refers to {least:,}"
            raise PackagingError(shard, problem, _AGAIN)
        total += size
    return total


def _least_sizes(index: Path) -> dict[Path, int]:
    """Each data file, and where the last tensor in it ends."""
    try:
        with index.open("rb") as opened:
            table = entries(opened, index.stat().st_size)
            key, value = next(table, (b"-", b""))
            if key:
                raise DamagedTableError("it does not begin with a header")
            count = wire.BundleHeaderProto.FromString(value).num_shards
            if not 1 <= count <= 99_999:
                raise DamagedTableError(f"it counts {count} data files")
            ends = [0] * count
            for key, value in table:
                entry = wire.BundleEntryProto.FromString(value)
                if not 0 <= entry.shard_id < count:
                    raise DamagedTableError(f"{key!r} is in data file {entry.shard_id} of {count}")
                ends[entry.shard_id] = max(ends[entry.shard_id], entry.offset + entry.size)
    except (DamagedTableError, WireError, DecodeError) as damage:
        raise PackagingError(index, f"is truncated or damaged ({damage})", _AGAIN) from None
    return {
        index.with_name(f"variables.data-{number:05d}-of-{count:05d}"): end
        for number, end in enumerate(ends)
    }
