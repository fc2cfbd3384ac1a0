"""What isal raises for bytes that are not what they should be."""

from isal import igzip_lib

# Its stubs take the class for an instance.
IsalError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]
