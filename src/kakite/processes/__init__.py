"""Starting programs so that none outlives its starter. Knows nothing of tools, sandboxes or models."""

from kakite.processes.ancestry import is_run_by_kakite
from kakite.processes.process import (
    STOP_TIMEOUT,
    CompletedProcess,
    CpuActivity,
    HeadTailCapture,
    Limit,
    ManagedProcess,
    OnOutput,
    RunningProcess,
    Stream,
    complete,
    run,
    start,
)
from kakite.processes.spawn_server import DelegatedSpawn, SpawnServer, SpawnServerConfig, SpawnServerError
from kakite.processes.spec import (
    COMMANDS,
    UNTRUSTED_HOME,
    Network,
    ProcessError,
    ProcessSpec,
    build_base_environment,
    build_command_argv,
    build_import_environment,
    build_proxy_environment,
)

__all__ = [
    "COMMANDS",
    "STOP_TIMEOUT",
    "UNTRUSTED_HOME",
    "CompletedProcess",
    "CpuActivity",
    "DelegatedSpawn",
    "HeadTailCapture",
    "Limit",
    "ManagedProcess",
    "Network",
    "OnOutput",
    "ProcessError",
    "ProcessSpec",
    "RunningProcess",
    "SpawnServer",
    "SpawnServerConfig",
    "SpawnServerError",
    "Stream",
    "build_base_environment",
    "build_command_argv",
    "build_import_environment",
    "build_proxy_environment",
    "complete",
    "is_run_by_kakite",
    "run",
    "start",
]
