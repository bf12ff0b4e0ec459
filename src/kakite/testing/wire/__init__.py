"""A loopback server that speaks real providers' wire formats and says what a script says.

With it the real provider code runs in tests and demos, without a network, a key or a bill.
"""

from kakite.testing.wire.server import Recorded, ScriptServer, script_server, serve_script

__all__ = ["Recorded", "ScriptServer", "script_server", "serve_script"]
