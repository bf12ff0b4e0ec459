"""Prometheus metrics of all tasks, computed from the workflow client for each request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from kakite import __version__
from kakite.agent.dashboard.views import QuestionKind, find_pending_question, get_published
from kakite.durable.client import WorkflowDescription, WorkflowState
from kakite.tools.toolset import JsonObject

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def render_metrics(standings: Sequence[WorkflowDescription], now: datetime) -> bytes:
    """Return the text that Prometheus reads: of tasks as they stand, and of all that they used up."""
    registry = CollectorRegistry()
    registry.register(_TaskCollector(standings, now))
    return generate_latest(registry)


class _TaskCollector(Collector):
    def __init__(self, standings: Sequence[WorkflowDescription], now: datetime) -> None:
        self._standings = standings
        self._now = now

    def collect(self) -> Iterator[Metric]:
        built = GaugeMetricFamily("kakite_build_info", "The version that answers.", labels=["version"])
        built.add_metric([__version__], 1)
        yield built
        yield self._collect_tasks()
        yield self._collect_questions()
        yield GaugeMetricFamily(
            "kakite_queue_age_seconds",
            "How long the oldest queued task has been waiting.",
            self._compute_queue_age(),
        )
        yield from self._collect_usage()

    def _collect_tasks(self) -> Metric:
        found = Counter(standing.state for standing in self._standings)
        family = GaugeMetricFamily(
            "kakite_tasks", "Tasks that are kept, by how they stand.", labels=["state"]
        )
        for state in get_args(WorkflowState):
            family.add_metric([state], found[state])
        return family

    def _collect_questions(self) -> Metric:
        found = Counter(
            ask["kind"] for standing in self._standings if (ask := find_pending_question(standing))
        )
        family = GaugeMetricFamily(
            "kakite_questions_waiting", "Questions that wait for a person, by kind.", labels=["kind"]
        )
        for kind in get_args(QuestionKind):
            family.add_metric([kind], found[kind])
        return family

    def _compute_queue_age(self) -> float:
        queued = [standing.created for standing in self._standings if standing.state == "queued"]
        return max(0.0, (self._now - min(queued)).total_seconds()) if queued else 0.0

    def _collect_usage(self) -> Iterator[Metric]:
        public = [get_published(standing) for standing in self._standings]
        usage, spent = [_part(each, "usage") for each in public], [_part(each, "spent") for each in public]
        tokens = CounterMetricFamily("kakite_tokens", "Tokens of the kept tasks.", labels=["direction"])
        tokens.add_metric(["input"], _sum(usage, "input_tokens"))
        tokens.add_metric(["output"], _sum(usage, "output_tokens"))
        yield tokens
        yield CounterMetricFamily(
            "kakite_cost_usd", "Cost of the kept tasks whose price is known.", _sum(usage, "cost_usd")
        )
        yield GaugeMetricFamily(
            "kakite_tasks_cost_unknown",
            "Kept tasks of which a price is not known.",
            sum("cost_usd" in each and each["cost_usd"] is None for each in usage),
        )
        yield CounterMetricFamily(
            "kakite_turns", "Replies of models to the kept tasks.", _sum(usage, "requests")
        )
        yield CounterMetricFamily("kakite_tool_calls", "Tool calls of the kept tasks.", _sum(spent, "calls"))


def _part(public: JsonObject, name: str) -> JsonObject:
    part = public.get(name)
    return cast("JsonObject", part) if isinstance(part, dict) else {}


def _sum(parts: Sequence[JsonObject], name: str) -> float:
    found = [part.get(name) for part in parts]
    return sum(each for each in found if isinstance(each, int | float))
