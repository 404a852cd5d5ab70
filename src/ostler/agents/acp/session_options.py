"""What an ACP agent offers in a session: modes, models and other options, and how each is set."""

from collections.abc import Callable
from typing import Any

from ostler.agents.offers import chosen, listed, offers
from ostler.agents.values import Record, table, tables, text
from ostler.errors import ErrorKind, OstlerError, quoted
from ostler.model import Offer

SetRequest = tuple[str, dict[str, Any]]  # the method that sets something, and its parameters but for the session


class AcpSessionOptions:
    """The options of one session, as the agent last told them."""

    def __init__(self, agent: str = "the agent") -> None:
        self._agent = agent
        self._options: list[Record] = []
        self._modes: list[Record] = []
        self._mode = ""
        self._models: list[Record] = []  # of agents that know `session/set_model` still
        self._model = ""

    def take(self, result: Record) -> None:
        """Takes in an answer that opens a session or sets an option, or an update about it."""
        before = text(self._option("mode").get("currentValue"))
        self._options = tables(result.get("configOptions")) or self._options
        now = text(self._option("mode").get("currentValue"))
        if self._mode and now != before:  # an agent may tell its mode in both ways, and a change in one alone
            self._mode = now
        modes, models = table(result.get("modes")), table(result.get("models"))
        self._modes = tables(modes.get("availableModes")) or self._modes
        self._mode = text(modes.get("currentModeId")) or text(result.get("currentModeId")) or self._mode
        self._models = tables(models.get("availableModels")) or self._models
        self._model = text(models.get("currentModelId")) or self._model

    @property
    def mode(self) -> str:
        return self._mode or text(self._option("mode").get("currentValue"))

    @property
    def model(self) -> str | None:
        return text(self._option("model").get("currentValue")) or self._model or None

    @property
    def state(self) -> tuple[str, str]:
        """What is taken for set; it is told to the agent first, which may refuse it."""
        return self._mode, self._model

    @state.setter
    def state(self, before: tuple[str, str]) -> None:
        self._mode, self._model = before

    def modes(self, may: Callable[[str], bool]) -> tuple[Offer, ...]:
        """Those that may be set, each by the end of its id after `#`."""
        found = offers(self._modes, "id") or chosen(self._option("mode"))
        return listed((ending(each.id), each.name, each.description) for each in found if may(each.id))

    def models(self) -> tuple[Offer, ...]:
        return chosen(self._option("model")) or offers(self._models, "modelId")

    def value(self, id: str) -> str:
        """What an option is set to; "" where there is none."""
        return text(next((each for each in self._options if each.get("id") == id), {}).get("currentValue"))

    def set_mode(self, wanted: str, missing: ErrorKind = "unsupported") -> SetRequest | None:
        """None: it is set already. Raises unsupported where there are none, `missing` where there are others."""
        if fits(self.mode, wanted):
            return None
        for id in (text(mode.get("id")) for mode in self._modes):
            if fits(id, wanted):
                self._mode = id
                return "session/set_mode", {"modeId": id}
        known = self.modes(lambda id: True)
        return self._choose(self._option("mode"), wanted, "mode", missing if known else "unsupported", known)

    def set_model(self, wanted: str) -> SetRequest | None:
        """None: it is set already. Raises bad_request, with the models that there are."""
        if wanted == self.model:
            return None
        option = self._option("model")
        if not option and self._models:
            self._model = wanted  # its list is not all that it takes
            return "session/set_model", {"modelId": wanted}
        return self._choose(option, wanted, "model", "bad_request", chosen(option))

    def set_option(self, id: str, value: str) -> SetRequest | None:
        """None: it is set already, or the agent has no such option."""
        option = next((each for each in self._options if each.get("id") == id), {})
        if not option or option.get("currentValue") == value:
            return None
        return self._choose(option, value, id, "unsupported", chosen(option))

    def _option(self, category: str) -> Record:
        return next((each for each in self._options if each.get("category") == category), {})

    def _choose(self, option: Record, wanted: str, what: str, kind: ErrorKind, known: tuple[Offer, ...]) -> SetRequest:
        """A value is taken whole, or by its end after `/` or `#`."""
        values = _values(option)
        found = next((value for value in values if value == wanted), None)
        found = found or next((value for value in values if fits(value, wanted)), None)
        if found is None:
            has = ", ".join(each.id for each in known[:20]) or "none"
            raise OstlerError(kind, f"{self._agent} has no {what} {quoted(wanted)}", f"It has: {has}")
        return "session/set_config_option", {"configId": text(option.get("id")), "value": found}


def fits(value: str, wanted: str) -> bool:
    return value == wanted or value.endswith((f"/{wanted}", f"#{wanted}"))


def _values(option: Record) -> list[str]:
    """All values of a config option, also those in groups."""
    found: list[str] = []
    for each in tables(option.get("options")):
        found += [text(one.get("value")) for one in (tables(each.get("options")) or [each])]
    return [value for value in found if value]


def ending(id: str) -> str:
    """What people call it: some agents have an address for an id."""
    return id.rpartition("#")[2] or id
