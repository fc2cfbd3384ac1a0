"""The entry point of the command `servable`, also as `python -m servable`.

Nothing that takes time is imported before the handlers of signals are set.
"""

from servable.console.signals import end_on_ctrl_c


def main() -> None:
    """Run the command; Ctrl-C and SIGTERM end the process before and after it, too."""
    end_on_ctrl_c()
    try:
        from servable.main import main as run

        run()
    finally:
        end_on_ctrl_c()  # while Python shuts down


if __name__ == "__main__":
    main()
