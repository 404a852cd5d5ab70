"""What an ACP agent says of itself in `initialize`, and what is wrong with one that does not open a dialog."""

from typing import Any

from ostler.agents.acp.protocol import PROTOCOL, Acp
from ostler.agents.acp.reader import judged
from ostler.agents.failures import spoken
from ostler.agents.values import Record, table, tables, text
from ostler.errors import quoted
from ostler.model import Exit, Problem, Turn

CHECK = "Check its command line, and its version"


class AgentInfo:
    """The agent at the other end: what it is able to do, and how one logs in to it."""

    def __init__(self, turn: Turn, acp: Acp) -> None:
        self._turn, self._acp, self._agent = turn, acp, turn.agent
        self.abilities: Record = {}
        self.logins = ""
        self._printed: list[str] = []  # before it talked

    def initialize(self) -> dict[str, Any]:
        """The parameters of the first request: what the agent may ask of us."""
        access, acp = self._turn.access, self._acp
        fs = {"readTextFile": acp.reads, "writeTextFile": acp.writes and access != "read"}
        # A command that we run is in no sandbox; under `write` a wall may keep it.
        terminal = acp.terminals and (access == "full" or (access == "write" and self._turn.walled))
        abilities = {"fs": fs, "terminal": terminal, "_meta": {"terminal_output": True}}
        about = {"name": "ostler", "title": "ostler", "version": "1"}
        return {"protocolVersion": PROTOCOL, "clientCapabilities": abilities, "clientInfo": about}

    def initialized(self, result: Record) -> Problem | None:
        """Takes in the answer to it. A problem: this agent is not one to go on with."""
        agent, names, version = self._agent, self._acp.names, result.get("protocolVersion")
        if version != PROTOCOL or isinstance(version, bool):
            found = "no version" if version is None else f"version {version!r:.50}"
            wrong = f"{agent} speaks {found} of ACP, ostler speaks version {PROTOCOL}"
            return Problem(kind="unsupported", message=wrong, hint=f"Update {agent} or ostler")
        if names and (name := text(table(result.get("agentInfo")).get("name"))) not in names:
            other = (
                f"{agent} calls itself {quoted(name)}, not {quoted(names[0])}: what keeps it to its access is not known"
            )
            return Problem(kind="denied", message=other, hint=f"Update it, or fix acp.{agent} in your settings")
        self.abilities = table(result.get("agentCapabilities"))
        self.logins = "; ".join(filter(None, map(_login, tables(result.get("authMethods")))))
        return None

    def able_in_session(self, ability: str) -> bool:
        return ability in table(self.abilities.get("sessionCapabilities"))

    def refusal(self, method: str, error: Record) -> Problem:
        """Why it did not do what the dialog cannot go on without."""
        kind, said = judged(error)
        agent = self._agent
        if kind == "unauthenticated":
            hint = self.logins or f"Log in to {agent}"
            return Problem(kind=kind, message=f"{agent} needs a login: {said}", hint=hint)
        if method in ("session/load", "session/resume"):
            gone = f"{agent} has no session {self._turn.agent_session or ''}: {said}"
            return Problem(kind="not_found", message=gone, hint="Start a new session")
        if method.startswith("session/set_"):
            return Problem(kind="bad_request", message=f"{agent} refused {method}: {said}")
        return Problem(kind="unsupported", message=f"{agent} could not open a dialog ({method}): {said}", hint=CHECK)

    # -- programs that do not speak ACP

    def printed(self, line: str) -> None:
        """A line of stdout that is no record."""
        if len(self._printed) < 20 and line.strip():
            self._printed.append(line.strip()[:200])

    def startup_error(self, exit: Exit | None) -> Problem | None:
        """Why it ended before it was ready, where it printed something instead of talking."""
        if not self._printed or self.logins or self.abilities:
            return None
        ended = f" and ended with {spoken(exit)}" if exit else ""
        return self.no_agent(f"it printed {quoted(self._printed[0])}{ended}")

    def no_agent(self, why: str) -> Problem:
        return Problem(kind="unsupported", message=f"{self._agent} is not an ACP agent: {why}", hint=CHECK)


def _login(method: Record) -> str:
    """How to log in, in the agent's own words."""
    if method.get("type") == "env_var":
        return "Set " + " and ".join(text(each.get("name")) for each in tables(method.get("vars")))
    return text(method.get("description")) or text(method.get("name"))
