"""Where a task's programs run."""

from kakite.sandbox.availability import AUTO, Kind, kinds, open_sandbox, try_out
from kakite.sandbox.copying import copy_in, copy_out
from kakite.sandbox.sandbox import Sandbox, SandboxError
from kakite.sandbox.setup import set_up
from kakite.sandbox.terms import Limits, Network, Service, Terms
from kakite.sandbox.watch import limit_passed

__all__ = [
    "AUTO",
    "Kind",
    "Limits",
    "Network",
    "Sandbox",
    "SandboxError",
    "Service",
    "Terms",
    "copy_in",
    "copy_out",
    "kinds",
    "limit_passed",
    "open_sandbox",
    "set_up",
    "try_out",
]
