"""What can go wrong."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The base of every error of this package."""


class Refused(Error):
    """The call has an answer that another try would not change. With a status below 500 nothing was changed."""

    def __init__(self, status: int, problem: dict[str, Any]):
        self.status = status
        self.problem = problem
        self.code: str = problem.get("code", "")
        faults = "; ".join(f"{one.get('pointer')}: {one.get('message')}" for one in problem.get("errors", []))
        super().__init__(f"{status} {self.code}: {faults or problem.get('detail', '')}")


class Unreachable(Error):
    """No final answer: none within the deadline, or none to a change that must not be sent twice. It may have
    happened or not."""


class TimedOut(Error):
    """The task has not ended within the time that was asked for."""

    def __init__(self, task: dict[str, Any]):
        self.task = task
        super().__init__(f"the task {task.get('taskId')} is still {task.get('status')}")


class InvalidCallback(Error):
    """The callback was not sent by the cluster, was changed on its way, or is too old."""
