"""OpenTelemetry spans of a run, by the semantic conventions for generative AI.

Off, and no SDK loaded, unless a standard variable asks for them: ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or that
of traces), or ``OTEL_TRACES_EXPORTER``. A run is one span for each process that works on it, with the
model's replies and the tool calls below; ``gen_ai.conversation.id`` is the same in all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kakite import __version__
from kakite.agent.observe.events import RunEvent, ToolCallEvent, ToolResultEvent
from kakite.agent.run.deps import RunDeps
from kakite.agent.run.state import Task
from kakite.errors import KakiteError
from kakite.installation import get_extra_install_command
from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, Usage
from kakite.models.model import Model, OnText, connect_model
from kakite.redaction import Redaction, build_redaction
from kakite.tools.toolset import Tool, ToolCall

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider as Provider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROVIDERS = {
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "vertex": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "xai": "x_ai",
}
"""Names of the conventions, where they differ from ours."""
_SHUTDOWN_TIMEOUT = 5.0
"""Seconds that a run's end waits for the last spans to be taken."""


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether the person asks for spans."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environ.get("OTEL_TRACES_EXPORTER", "")
    if exporter:
        return exporter in {"otlp", "console"}
    return any(environ.get(f"OTEL_EXPORTER_OTLP_{name}") for name in ("ENDPOINT", "TRACES_ENDPOINT"))


@asynccontextmanager
async def instrument(parts: RunDeps, task: Task, environ: Mapping[str, str]) -> AsyncGenerator[RunDeps]:
    """Give parts whose model and tools leave spans while the block lasts; the same if none are wanted."""
    # In threads: much is imported, and an exporter tries for long where nobody listens.
    provider = await asyncio.to_thread(_create_provider, environ) if is_wanted(environ) else None
    if provider is None:
        yield parts
        return
    try:
        with instrument_with(parts, task, environ, provider) as seen:
            yield seen
    finally:
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _SHUTDOWN_TIMEOUT)


@contextmanager
def instrument_with(
    parts: RunDeps, task: Task, environ: Mapping[str, str], provider: TracerProvider
) -> Generator[RunDeps]:
    """Give parts that leave spans at this provider."""
    redaction = build_redaction(environ)
    content = environ.get(_CONTENT_VARIABLE, "").lower() in {"true", "span_only", "span_and_event"}
    tracer = provider.get_tracer("kakite", __version__)
    spans = _RunSpans(tracer, task, redaction if content else None)
    model = _TracedModel(parts.model, spans)
    try:
        yield replace(parts, model=model, listener=spans.wrap_listener(parts.listener))
    except BaseException as error:
        spans.end(error)
        raise
    spans.end()


class _RunSpans:
    """The spans of one stretch of a run, in one process."""

    def __init__(self, tracer: Tracer, task: Task, redaction: Redaction | None) -> None:
        self._tracer = tracer
        self._redaction = redaction
        self._usage = Usage()
        self._tools: dict[str, Span] = {}
        provider, _, model = task.model.partition(":")
        self._shared: dict[str, AttributeValue] = {
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model or provider,
            "gen_ai.conversation.id": task.id,
        }
        agent = {"gen_ai.agent.name": "kakite", "gen_ai.agent.version": __version__}
        self._root = tracer.start_span(
            "invoke_agent kakite",
            attributes={"gen_ai.operation.name": "invoke_agent", **agent, **self._shared},
        )

    def start_chat(self) -> Span:
        """Begin a request to the model."""
        from opentelemetry.trace import SpanKind

        attributes = {"gen_ai.operation.name": "chat", **self._shared}
        return self._start_child(f"chat {self._shared['gen_ai.request.model']}", attributes, SpanKind.CLIENT)

    def end_chat(self, span: Span, reply: Reply) -> None:
        """End a request with its reply."""
        self._usage += reply.usage
        span.set_attribute("gen_ai.response.finish_reasons", [reply.finish])
        if reply.model:
            span.set_attribute("gen_ai.response.model", reply.model)
        span.set_attributes(_build_usage_attributes(reply.usage))
        self.record_content(span, "gen_ai.output.messages", [_encode_message(reply)])
        span.end()

    def record_content(self, span: Span, name: str, value: object) -> None:
        """Note what was said, if that is wanted, without secrets."""
        if self._redaction is not None:
            span.set_attribute(name, json.dumps(self._redaction.redact_json(value), ensure_ascii=False))

    def wrap_listener(self, listener: Callable[[RunEvent], None]) -> Callable[[RunEvent], None]:
        """Return a listener that tells this one, and makes spans of tools' calls."""

        def on_event(event: RunEvent) -> None:
            if isinstance(event, ToolCallEvent):
                self._on_tool_call_started(event)
            elif isinstance(event, ToolResultEvent):
                self._on_tool_call_finished(event)
            listener(event)

        return on_event

    def end(self, error: BaseException | None = None) -> None:
        """End all that is open."""
        for span in self._tools.values():
            end_with_error(span, error) if error else span.end()
        self._tools.clear()
        self._root.set_attributes(_build_usage_attributes(self._usage))
        end_with_error(self._root, error) if error else self._root.end()

    def _on_tool_call_started(self, event: ToolCallEvent) -> None:
        from opentelemetry.trace import SpanKind

        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": event.id,
            "gen_ai.conversation.id": self._shared["gen_ai.conversation.id"],
        }
        span = self._start_child(f"execute_tool {event.tool}", attributes, SpanKind.INTERNAL)
        self.record_content(span, "gen_ai.tool.call.arguments", event.arguments)
        self._tools[event.id] = span

    def _on_tool_call_finished(self, event: ToolResultEvent) -> None:
        span = self._tools.pop(event.id, None)
        if span is None:
            return
        self.record_content(span, "gen_ai.tool.call.result", event.text)
        if not event.ok:
            _mark_failed(span, event.code or "_OTHER")
        span.end()

    def _start_child(self, name: str, attributes: Mapping[str, AttributeValue], kind: object) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        assert isinstance(kind, SpanKind)
        return self._tracer.start_span(
            name, context=set_span_in_context(self._root), kind=kind, attributes=attributes
        )


class _TracedModel:
    """A model each of whose replies is a span."""

    def __init__(self, model: Model, spans: _RunSpans) -> None:
        self._model = model
        self._spans = spans

    @property
    def name(self) -> str:
        return self._model.name

    def connect(self) -> AbstractAsyncContextManager[object]:
        return connect_model(self._model)

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        span = self._spans.start_chat()
        if on_text is not None:
            span.set_attribute("gen_ai.request.stream", True)  # noqa: FBT003 - the library's form
        said = [{"type": "text", "content": instructions}]
        self._spans.record_content(span, "gen_ai.system_instructions", said)
        self._spans.record_content(
            span, "gen_ai.input.messages", [_encode_message(each) for each in messages]
        )
        try:
            reply = await self._model.reply(instructions, messages, tools, on_text, on_thought)
        except BaseException as error:
            end_with_error(span, error)
            raise
        self._spans.end_chat(span, reply)
        return reply


def end_with_error(span: Span, error: BaseException) -> None:
    """End a span with the kind of an error; its words could hold what nobody wants to send."""
    _mark_failed(span, error.code if isinstance(error, KakiteError) else type(error).__name__)
    span.end()


def _mark_failed(span: Span, kind: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _build_usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    used: dict[str, AttributeValue] = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
    }
    return used if usage.cost_usd is None else {**used, "kakite.cost_usd": usage.cost_usd}


def _encode_message(message: Message) -> dict[str, object]:
    """Return a message in the conventions' form."""
    if isinstance(message, ToolMessage):
        part = {"type": "tool_call_response", "id": message.call_id, "response": message.text}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, object]] = [{"type": "text", "content": message.text}] if message.text else []
    if not isinstance(message, Reply):
        return {"role": "user", "parts": parts}
    parts += map(_encode_call, message.calls)
    return {"role": "assistant", "parts": parts, "finish_reason": message.finish}


def _encode_call(call: ToolCall | InvalidToolCall) -> dict[str, object]:
    arguments = call.raw if isinstance(call, InvalidToolCall) else call.arguments
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _create_provider(environ: Mapping[str, str]) -> Provider | None:
    """Return what sends spans where the variables say; None if the package is missing."""
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = _create_exporter(environ)
    except ImportError:
        logging.getLogger(__name__).warning(
            "OTEL_* asks for spans, which need another package: %s", get_extra_install_command("telemetry")
        )
        return None
    provider = TracerProvider(resource=_create_resource(environ), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _create_resource(environ: Mapping[str, str]) -> Resource:
    from opentelemetry.sdk.resources import Resource

    named = "service.name" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or environ.get("OTEL_SERVICE_NAME")
    return Resource.create({} if named else {"service.name": "kakite", "service.version": __version__})


def _create_exporter(environ: Mapping[str, str]) -> SpanExporter:
    if environ.get("OTEL_TRACES_EXPORTER") == "console":
        import sys

        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
