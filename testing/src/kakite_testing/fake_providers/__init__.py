"""A loopback server that speaks real providers' wire formats and answers from a script.

With it the real provider code runs in tests and demos, without a network, a key or a bill.
"""

from kakite_testing.fake_providers.server import (
    RecordedRequest,
    ScenarioServer,
    run_scenario_server,
    serve_scenario,
)

__all__ = ["RecordedRequest", "ScenarioServer", "run_scenario_server", "serve_scenario"]
