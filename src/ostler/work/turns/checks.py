"""Checks of what a turn asks for, which need nothing but the agent and the folder."""

import os

from msgspec import structs

from ostler.agents import AGENTS, Agent
from ostler.errors import OstlerError, quoted
from ostler.model import MAX_PROMPT, Turn
from ostler.work.transports.facts import TRANSPORT_FACTS
from ostler.work.turns import attachments, schema
from ostler.work.turns.setup import Setup


def check_prompt(prompt: str) -> None:
    """Raises bad_request for a prompt that no agent can be given."""
    if not isinstance(prompt, str):
        raise OstlerError("bad_request", f"the prompt must be text, not {type(prompt).__name__}")
    if not prompt.strip():
        raise OstlerError("bad_request", "the prompt is empty", 'Say what to do: ostler run claude "…"')
    if "\0" in prompt:
        raise OstlerError("bad_request", "the prompt contains a NUL character")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise OstlerError("bad_request", "the prompt is not valid Unicode text") from error


def check_folder(folder: str) -> str:
    """The absolute folder. Raises when it is missing, no folder, or cannot be read."""
    try:
        path = os.path.realpath(folder)
    except (ValueError, TypeError) as error:  # a NUL, what is no Unicode, or no path at all
        raise OstlerError("bad_request", f"not a path: {quoted(folder)}") from error
    if not os.path.exists(path):
        raise OstlerError("not_found", f"no such folder: {folder}")
    if not os.path.isdir(path):
        raise OstlerError("bad_request", f"not a folder: {folder}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise OstlerError("denied", f"the folder cannot be read: {folder}")
    return path


def turn_for(turn: Turn, agent: Agent) -> Turn:
    """The turn as this agent gets it, or the error that says why it cannot."""
    if turn.limits.cost_usd is not None and not agent.cost:
        able = ", ".join(each.name for each in AGENTS.values() if each.cost)
        message = f"{agent.name} does not report what a turn costs"
        raise OstlerError("unsupported", message, f"Leave out --max-cost, or choose one of {able}")
    if turn.resume and not agent.resumes:
        raise OstlerError("unsupported", f"{agent.name} cannot resume a conversation")
    if turn.fork and not agent.forks:
        raise OstlerError("unsupported", f"{agent.name} cannot fork a conversation", "Start a new session")
    if turn.system_mode == "replace" and not agent.replaces_system:
        able = ", ".join(each.name for each in AGENTS.values() if each.replaces_system)
        message = f"{agent.name} keeps its own system prompt: it cannot be replaced"
        raise OstlerError("unsupported", message, f"Leave out --system-mode, or choose one of {able}")
    checked = attachments.check(turn.attachments, agent, turn.folder)
    prompt = turn.prompt
    if turn.schema is not None:
        schema.check_schema(turn.schema)
        if agent.schema != "native" or TRANSPORT_FACTS[turn.transport].stays:
            # Flags are for a process, and one that stays serves turns with other schemas too.
            prompt = f"{prompt}\n\n{schema.instruction(turn.schema)}"
    _check_size(prompt, sum(len(a.content.encode()) for a in checked if a.content is not None), agent)
    return structs.replace(turn, prompt=prompt, attachments=checked)


def _check_size(prompt: str, attached: int, agent: Agent) -> None:
    """`attached`: bytes of text that go to the agent with the prompt."""
    size, limit = len(prompt.encode()) + attached, agent.prompt_limit or MAX_PROMPT
    if size > limit:
        raise OstlerError(
            "bad_request",
            f"the prompt has {size:,} bytes{' with its attachments' if attached else ''}; "
            f"{agent.name} accepts at most {limit:,}",
            "Put the text in a file of the folder and name it in the prompt",
        )


def check_promise(setup: Setup, turn: Turn, agent: Agent) -> None:
    """An access that the agent cannot keep is refused, unless the settings say that this is known."""
    broken = agent.unpromised.get(turn.access)
    if broken and agent.name not in setup.settings.loose:
        raise OstlerError(
            "denied",
            f"{agent.name} cannot promise --access {turn.access}: {broken}",
            f'Use --access full, or accept it with loose = ["{agent.name}"] in your settings (OSTLER_LOOSE)',
        )
