"""What the server counts, for Prometheus. The client library is imported when somebody asks."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import ostler as package
from ostler import clock
from ostler.server.responses import Scope

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from ostler.work import Ostler

_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_LAG_EVERY = 0.5
_LAG_STEPS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counts as it goes; the store and the open connections are asked at the moment of a scrape."""

    def __init__(self, ostler: "Ostler", staying: Callable[[str], int] = lambda kind: 0) -> None:
        self._ostler = ostler
        self.staying = staying
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._lag: Counter[float] = Counter()
        self._lag_sum, self._lag_count = 0.0, 0
        self._watch = ostler.store.watch()
        self._counted = self._watch.newest_turn()
        self._open: set[int] = set()  # numbers of turns that had not ended at the last look
        self._ended: Counter[tuple[str, str]] = Counter()
        self._registry: CollectorRegistry | None = None

    def request(self, scope: Scope, status: int) -> None:
        """By route, never by path: a path names sessions, and there is no end of them."""
        method = scope.get("method", "WS")
        route = scope.get("path_template") or ("page" if 200 <= status < 400 else "none")
        self._requests[method if method in (*_METHODS, "WS") else "other", route, str(status)] += 1

    async def watch_lag(self) -> None:
        """One look at how late the event loop is."""
        due = clock.monotonic() + _LAG_EVERY
        await asyncio.sleep(_LAG_EVERY)
        late = max(0.0, clock.monotonic() - due)
        self._lag_sum, self._lag_count = self._lag_sum + late, self._lag_count + 1
        self._lag.update(step for step in _LAG_STEPS if late <= step)

    def text(self) -> bytes:
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

        if self._registry is None:
            self._registry = CollectorRegistry()
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
            self._registry.register(self)
        return generate_latest(self._registry)

    def describe(self) -> list[Any]:
        return []  # nothing is counted before somebody asks

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import InfoMetricFamily

        yield InfoMetricFamily("ostler", "The server", {"version": package.__version__})
        yield from self._work()
        yield from self._traffic()

    def _work(self) -> "Iterator[Metric]":
        """What goes on in the store, whichever process does it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        self._count_turns()
        ended = CounterMetricFamily(
            "ostler_turns", "Turns that ended since the server began", labels=("agent", "outcome")
        )
        for labels, count in sorted(self._ended.items()):
            ended.add_metric(labels, count)
        running = GaugeMetricFamily("ostler_turns_running", "Turns that have not ended", labels=("state",))
        states = Counter(row.state for row in self._ostler.store.running_turns())
        for state in ("queued", "starting", "running", "asking"):
            running.add_metric((state,), states[state])
        live = len(self._ostler.store.terminals(live=True))
        yield from (ended, running, GaugeMetricFamily("ostler_terminals_live", "Terminals whose program runs", live))

    def _count_turns(self) -> None:
        found = self._watch.outcomes(self._counted, self._open)
        self._counted = max([self._counted, *(n for n, _, _ in found)])
        self._ended.update((agent, outcome) for _, agent, outcome in found if outcome)
        self._open = {n for n, _, outcome in found if outcome is None}

    def _traffic(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        requests = CounterMetricFamily("ostler_http_requests", "Requests", labels=("method", "route", "status"))
        for labels, count in sorted(self._requests.items()):
            requests.add_metric(labels, count)
        lag = HistogramMetricFamily("ostler_loop_lag_seconds", "How late the event loop is")
        buckets = [(str(step), float(self._lag[step])) for step in _LAG_STEPS]
        lag.add_metric((), [*buckets, ("+Inf", float(self._lag_count))], self._lag_sum)
        yield requests
        yield GaugeMetricFamily("ostler_viewers", "Open WebSockets", self.staying("websocket"))
        yield GaugeMetricFamily("ostler_streams", "Open event streams", self.staying("http"))
        yield lag
