"""Sends spans to an OTLP receiver, by the official SDK and exporter: the extra `otel`."""

import logging
from collections.abc import Sequence

from ostler.errors import OstlerError
from ostler.export.spans import Span

_NANOSECONDS = 1_000_000_000


def send(spans: Sequence[Span], endpoint: str | None, version: str) -> None:
    """To `endpoint`, else where OTEL_EXPORTER_OTLP_ENDPOINT says. Blocks. Raises missing, and crashed if it fails."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from opentelemetry.sdk.trace.id_generator import IdGenerator
    except ImportError as error:
        what = "exporting spans needs the OpenTelemetry exporter, which is not installed"
        raise OstlerError("missing", what, "Install it: pip install 'ostler[otel]'") from error

    class GivenIds(IdGenerator):
        """Ids that were chosen before: the same thing has the same ids whenever it is exported."""

        span, trace = 0, 0

        def generate_span_id(self) -> int:
            return self.span

        def generate_trace_id(self) -> int:
            return self.trace

    # Else Python prints each try that failed on stderr; whoever logs gets them all the same.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    ids, made = GivenIds(), InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource.create({"service.name": "ostler", "service.version": version}), id_generator=ids
    )
    provider.add_span_processor(SimpleSpanProcessor(made))
    tracer = provider.get_tracer("ostler", version)
    for span in spans:
        ids.span, ids.trace = int(span.id, 16), int(span.trace, 16)
        _record(tracer, span)
    exporter = OTLPSpanExporter(endpoint=endpoint)
    try:
        result = exporter.export(made.get_finished_spans())
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
        provider.shutdown()
    if result is not SpanExportResult.SUCCESS:
        where = endpoint or "the address in OTEL_EXPORTER_OTLP_ENDPOINT (usually http://localhost:4318)"
        raise OstlerError(
            "crashed", f"{where} did not accept the spans", "Check the address, and that it speaks OTLP/HTTP"
        )


def _record(tracer: "object", span: Span) -> None:
    """Begins and ends one span, at the times that it had."""
    from opentelemetry import trace

    assert isinstance(tracer, trace.Tracer)
    parent = trace.SpanContext(
        int(span.trace, 16), int(span.parent or "0", 16), False, trace.TraceFlags(trace.TraceFlags.SAMPLED)
    )
    context = trace.set_span_in_context(trace.NonRecordingSpan(parent) if span.parent else trace.INVALID_SPAN)
    begun = tracer.start_span(
        span.name,
        context=context,
        kind=trace.SpanKind.INTERNAL,
        attributes=span.attributes,
        start_time=int(span.start * _NANOSECONDS),
    )
    if span.error is not None:
        begun.set_status(trace.Status(trace.StatusCode.ERROR, span.error))
    begun.end(end_time=int(span.end * _NANOSECONDS))
