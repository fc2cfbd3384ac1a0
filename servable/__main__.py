"""Run the command `servable`, also as `python -m servable`.

Slow imports come after the signal handlers are set.
"""

from servable.console.signals import end_on_ctrl_c


def main() -> None:
    """Run the command. Ctrl-C and SIGTERM end the process also before and after the command itself runs."""
    end_on_ctrl_c()
    try:
        from servable.main import main as run

        run()
    finally:
        end_on_ctrl_c()  # while Python shuts down


if __name__ == "__main__":
    main()
