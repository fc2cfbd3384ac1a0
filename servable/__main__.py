"""`python -m servable`: the servable command, where it is not installed."""

from servable.main import main

main()
