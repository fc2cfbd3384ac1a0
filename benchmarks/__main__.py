"""Run a benchmark: `python -m benchmarks NAME`; `python -m benchmarks page` writes the page again."""

import argparse
import sys

from benchmarks.frame import NAMES, main, write_page

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=(*NAMES, "page"))
    if (name := parser.parse_args().name) == "page":
        write_page()
    else:
        sys.exit(main(name))
