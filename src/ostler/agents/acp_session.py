"""What an ACP agent offers in a session: modes, models and other options, and how each is set."""

from typing import Any

from ostler.agents.adapter import Record
from ostler.agents.values import table, tables, text
from ostler.errors import OstlerError

Wish = tuple[str, dict[str, Any]]  # the method that sets something, and its parameters but for the session


class Offered:
    """The options of one session, as the agent last told them."""

    def __init__(self) -> None:
        self._options: list[Record] = []
        self._modes: list[str] = []
        self._mode = ""
        self._models: list[str] = []  # of agents that know `session/set_model` still
        self._model = ""

    def told(self, result: Record) -> None:
        """Takes in an answer that opens a session or sets an option, or an update about it."""
        self._options = tables(result.get("configOptions")) or self._options
        modes, models = table(result.get("modes")), table(result.get("models"))
        self._modes = [text(mode.get("id")) for mode in tables(modes.get("availableModes"))] or self._modes
        self._mode = text(modes.get("currentModeId")) or text(result.get("currentModeId")) or self._mode
        self._models = [text(model.get("modelId")) for model in tables(models.get("availableModels"))] or self._models
        self._model = text(models.get("currentModelId")) or self._model

    @property
    def mode(self) -> str:
        return self._mode or text(self._option("mode").get("currentValue"))

    @property
    def model(self) -> str | None:
        return text(self._option("model").get("currentValue")) or self._model or None

    def set_mode(self, wanted: str) -> Wish | None:
        """None: it is set already. Raises unsupported."""
        if fits(self.mode, wanted):
            return None
        for id in self._modes:
            if fits(id, wanted):
                self._mode = id
                return "session/set_mode", {"modeId": id}
        return self._choose(self._option("mode"), wanted, "mode", "unsupported")

    def set_model(self, wanted: str) -> Wish | None:
        """None: it is set already. Raises bad_request, with the models that there are."""
        if wanted == self.model:
            return None
        option = self._option("model")
        if not option and self._models:
            self._model = wanted  # its list is not all that it takes
            return "session/set_model", {"modelId": wanted}
        return self._choose(option, wanted, "model", "bad_request")

    def set_option(self, id: str, value: str) -> Wish | None:
        """None: it is set already, or the agent has no such option."""
        option = next((each for each in self._options if each.get("id") == id), {})
        if not option or option.get("currentValue") == value:
            return None
        return self._choose(option, value, id, "unsupported")

    def _option(self, category: str) -> Record:
        return next((each for each in self._options if each.get("category") == category), {})

    def _choose(self, option: Record, wanted: str, what: str, kind: Any) -> Wish:
        """A value is taken whole, or by its end after `/` or `#`."""
        values = _values(option)
        found = next((value for value in values if value == wanted), None)
        found = found or next((value for value in values if fits(value, wanted)), None)
        if found is None:
            known = ", ".join(values[:20] or self._modes if what == "mode" else values[:20]) or "none"
            raise OstlerError(kind, f"the agent has no {what} {wanted!r}", f"It has: {known}")
        return "session/set_config_option", {"configId": text(option.get("id")), "value": found}


def fits(value: str, wanted: str) -> bool:
    return value == wanted or value.endswith((f"/{wanted}", f"#{wanted}"))


def _values(option: Record) -> list[str]:
    """The values of a config option, also those in groups."""
    found: list[str] = []
    for each in tables(option.get("options")):
        grouped = tables(each.get("options"))
        found += [text(one.get("value")) for one in (grouped or [each])]
    return [value for value in found if value]
