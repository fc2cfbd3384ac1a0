"""The entry point of the command `servable`, also as `python -m servable`.

Nothing that takes time is imported before the handler of Ctrl-C is set.
"""

from servable.signals import end_on_ctrl_c


def main() -> None:
    """Run the command; Ctrl-C ends the process with 130 before and after it, too."""
    end_on_ctrl_c()
    try:
        from servable.main import main as run

        run()
    finally:
        end_on_ctrl_c()  # while Python shuts down


if __name__ == "__main__":
    main()
