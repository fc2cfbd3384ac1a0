"""Gunicorn's process: `python -m servable_local.container.gunicorn --parent-pid N --plan JSON`."""

import gevent.monkey


def main() -> None:
    # First of all, and whatever the worker class is: as in the image's python_service.py.
    gevent.monkey.patch_all()
    from servable_local.container.gunicorn.master import run_gunicorn

    run_gunicorn()


if __name__ == "__main__":
    main()
