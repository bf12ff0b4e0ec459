"""Starting programs so that none outlives its starter. Knows nothing of tools, sandboxes or models."""

from kakite.processes.ancestry import inside_a_run
from kakite.processes.launch import Launch, ProcessError, base_environment
from kakite.processes.network import Network, proxy_environment
from kakite.processes.output import KeptOutput, OnOutput, Stream
from kakite.processes.program import (
    PATIENCE,
    Activity,
    Child,
    Completed,
    Limit,
    Running,
    complete,
    run,
    start,
)
from kakite.processes.starter import By, Starter, StarterError
from kakite.processes.starter import Terms as StarterTerms

__all__ = [
    "PATIENCE",
    "Activity",
    "By",
    "Child",
    "Completed",
    "KeptOutput",
    "Launch",
    "Limit",
    "Network",
    "OnOutput",
    "ProcessError",
    "Running",
    "Starter",
    "StarterError",
    "StarterTerms",
    "Stream",
    "base_environment",
    "complete",
    "inside_a_run",
    "proxy_environment",
    "run",
    "start",
]
