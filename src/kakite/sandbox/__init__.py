"""Runs the programs of one task, isolated or not."""

from kakite.sandbox.base import Sandbox, SandboxError
from kakite.sandbox.disk_limits import find_exceeded_limit
from kakite.sandbox.factory import AUTO, BackendInfo, list_backends, open_sandbox, try_out
from kakite.sandbox.files.copy import copy_in, copy_out
from kakite.sandbox.project_setup import set_up
from kakite.sandbox.spec import Network, ResourceLimits, SandboxSpec, Service

__all__ = [
    "AUTO",
    "BackendInfo",
    "Network",
    "ResourceLimits",
    "Sandbox",
    "SandboxError",
    "SandboxSpec",
    "Service",
    "copy_in",
    "copy_out",
    "find_exceeded_limit",
    "list_backends",
    "open_sandbox",
    "set_up",
    "try_out",
]
