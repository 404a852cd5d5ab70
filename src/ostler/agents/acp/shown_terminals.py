"""The terminals that an ACP agent shows: those that we run for it, and those of its own."""

from ostler.agents.dialog import Call, Step
from ostler.agents.values import Record, table, tables, text


def shown_terminals(update: Record) -> list[Step]:
    """The terminals that a tool call shows, and those of the agent's own, told in `_meta` of its tool calls."""
    meta, tool = table(update.get("_meta")), text(update.get("toolCallId"))
    linked = [
        {"terminal_id": content.get("terminalId"), "what": "terminal_link", "tool": tool}
        for content in tables(update.get("content"))
        if content.get("type") == "terminal" and tool
    ]
    described = [
        {**found, "what": name, "tool": tool}
        for name in ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit")
        if isinstance(found := meta.get(name), dict)
    ]
    return [Call("", "terminal_show", params) for params in (*linked, *described)]
