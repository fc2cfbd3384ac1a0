"""One page that says what was measured: pictures, tables, no network."""
