"""Where a task's programs run."""

from kakite.sandbox.availability import Kind, kinds, open_sandbox
from kakite.sandbox.sandbox import Sandbox, SandboxError

__all__ = ["Kind", "Sandbox", "SandboxError", "kinds", "open_sandbox"]
