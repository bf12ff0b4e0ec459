"""Models that follow a script, for tests and demos: in this process, or as a server on the loopback.

``kakite.testing.wire`` is the server.
"""

from kakite.testing.script import Playback, Script, ScriptError
from kakite.testing.scripted import ScriptedModel

__all__ = ["Playback", "Script", "ScriptError", "ScriptedModel"]
