"""A metric: is the expected answer somewhere in the output?"""

from seedbed import Run, Score, Task, metric


@metric(version=1)  # raise it when scores might change
def mentions(run: Run, task: Task) -> Score:
    """1 if the expected answer is somewhere in the output."""
    if task.expected is None:
        return Score(None, "the task has no expected answer")
    return Score(float(str(task.expected).lower() in str(run.output).lower()))
