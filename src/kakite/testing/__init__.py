"""Scripted models, fake providers and fake forges for tests and demos.

``kakite.testing.fake_providers`` is a scripted model as a loopback server.
"""

from kakite.testing.scripted_model import Scenario, ScenarioError, ScenarioRun, ScriptedModel

__all__ = ["Scenario", "ScenarioError", "ScenarioRun", "ScriptedModel"]
