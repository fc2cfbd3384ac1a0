"""Locust's FastHttpUser as its guide shows it, for `python -m locust`; the body is in the variable BODY.

Source: https://docs.locust.io/en/stable/increase-performance.html (2026-11-22)
"""

import os

from locust import FastHttpUser, constant, task


class FastUser(FastHttpUser):
    wait_time = constant(0)

    @task
    def ask(self) -> None:
        headers = {"Content-Type": "application/json"}
        self.client.post("/invocations", os.environ["BODY"], headers=headers)
