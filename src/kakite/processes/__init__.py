"""Starting programs so that none outlives its starter. Knows nothing of tools, sandboxes or models."""

from kakite.processes.ancestry import inside_a_run
from kakite.processes.launch import Launch, ProcessError, base_environment
from kakite.processes.output import OnOutput, Stream
from kakite.processes.program import PATIENCE, Activity, Child, Completed, run, start

__all__ = [
    "PATIENCE",
    "Activity",
    "Child",
    "Completed",
    "Launch",
    "OnOutput",
    "ProcessError",
    "Stream",
    "base_environment",
    "inside_a_run",
    "run",
    "start",
]
