"""How codex is started: `codex exec --json … -` with the prompt on stdin, or `codex app-server` for a dialog."""

import json

from ostler.access import Access
from ostler.agents.codex.hooks import hook_flags
from ostler.agents.codex.toml import toml
from ostler.agents.launches import ARGUMENT_LIMIT, SYSTEM_FIRST, refuse_tool_lists, with_attachments
from ostler.agents.values import UUID
from ostler.errors import OstlerError, quoted
from ostler.model import Attachment, Host, Launch, McpServer, Turn

PROMPT_LIMIT = 1_048_576  # characters; above, codex ends after `thread.started`
SANDBOX: dict[Access, str] = {"read": "read-only", "write": "workspace-write", "full": "danger-full-access"}
# RUST_LOG: errors, and of the telemetry events those of a refusal and those with a tool's arguments.
LOG_FILTER = "error,codex_otel.log_only[{outcome}]=info,codex_otel.log_only[{arguments}]=info"


def launch(turn: Turn, host: Host) -> Launch:
    refuse_tool_lists(turn)
    if turn.command:
        raise OstlerError("unsupported", "codex exec has no slash commands", "Send the prompt without --command")
    files: dict[str, bytes] = {}
    flags, prompt, notices = [*_confinement(turn), trust_flag(turn, host)], turn.prompt, []
    if turn.model:
        flags.append(f"--model={turn.model}")
    if turn.lean:
        flags.append("--config=features.plugins=false")
    if turn.system and turn.system_mode == "replace":
        files[f"{host.private}/system.md"] = turn.system.encode()
        flags.append("--config=model_instructions_file=" + toml(f"{host.private}/system.md"))
    elif turn.system:
        if _system_by_flag(turn):
            flags.append("--config=developer_instructions=" + toml(turn.system))
        elif turn.first:
            prompt = f"{turn.system}\n\n{prompt}"
            notices.append(SYSTEM_FIRST)
    if turn.schema is not None:
        path = f"{host.private}/schema.json"
        files[path] = json.dumps(turn.schema).encode()
        flags.append(f"--output-schema={path}")
    flags += hook_flags(turn, host, files)
    flags += [_server(server) for server in turn.mcp]
    flags += [f"--image={a.path}" for a in turn.attachments if native_image(a)]
    prompt = with_attachments(prompt, [a for a in turn.attachments if not native_image(a)])
    if len(prompt) > PROMPT_LIMIT:
        raise OstlerError(
            "bad_request", f"the prompt has {len(prompt):,} characters; codex accepts at most {PROMPT_LIMIT:,}"
        )
    env = {}
    if "RUST_LOG" not in turn.env:
        env["RUST_LOG"] = LOG_FILTER
        flags.append('--config=shell_environment_policy.set.RUST_LOG=""')  # not for the commands it runs
    # `--sandbox` is refused after `resume`, so every flag stands before it.
    argv = (host.executable, "exec", "--json", "--skip-git-repo-check", *flags, *_conversation(turn), "-")
    return Launch(argv=argv, stdin=prompt.encode(), env=env, files=files, notices=tuple(notices))


def dialog_launch(turn: Turn, host: Host) -> Launch:
    """`codex app-server`: access, model and system prompt are said over its stdin."""
    refuse_tool_lists(turn)
    if turn.command:
        raise OstlerError("unsupported", "codex app-server has no slash commands", "Send the prompt without --command")
    _conversation(turn)
    flags = (trust_flag(turn, host), *(("--config=features.plugins=false",) if turn.lean else ()))
    before = turn.system and turn.first and turn.resume and turn.system_mode == "append"
    notices = (SYSTEM_FIRST,) if before else ()
    return Launch(argv=(host.executable, "app-server", *flags), notices=notices)


def _confinement(turn: Turn) -> list[str]:
    """Flags that hold against the user's and the project's config.toml.

    Without `never`, a user's `approvals_reviewer` lets a model widen the sandbox; an `allow` rule in
    a `.rules` file runs its command outside of it.
    """
    flags = [f"--sandbox={SANDBOX[turn.access]}", '--config=approval_policy="never"']
    if turn.access != "full":
        flags.append("--ignore-rules")
    if turn.access == "write":
        flags.append("--config=sandbox_workspace_write.writable_roots=[]")
        flags.append("--config=sandbox_workspace_write.network_access=false")
    return flags


def trust_flag(turn: Turn, host: Host) -> str:
    """Says of the folder, and of all above it, whether they are trusted.

    Without it, codex notes in the user's config.toml that a folder is trusted as soon as a turn may write there, and
    from then on starts the MCP servers of the folder's own config.toml.
    """
    level = toml("trusted" if host.trusted else "untrusted")
    each = ",".join(f"{toml(folder)}={{trust_level={level}}}" for folder in host.levels or (turn.folder,))
    return f"--config=projects={{{each}}}"


def _conversation(turn: Turn) -> list[str]:
    if not turn.resume:
        return []
    if not UUID.fullmatch(turn.agent_session or ""):
        # codex takes any other word as a name and silently begins a new conversation.
        raise OstlerError(
            "bad_request", f"{quoted(turn.agent_session)} is not an id of a codex conversation", "Its ids are UUIDs"
        )
    return ["fork" if turn.fork else "resume", turn.agent_session or ""]


def _system_by_flag(turn: Turn) -> bool:
    """codex keeps the instructions of a conversation's first turn: an adopted one would ignore the flag."""
    adopted = turn.first and turn.resume
    return not adopted and len((turn.system or "").encode()) <= ARGUMENT_LIMIT


def _server(server: McpServer) -> str:
    if server.env:
        # An argument can be read by everyone on the machine.
        what = f"codex cannot pass variables to the MCP server {server.name} without --dialog"
        raise OstlerError("unsupported", what, "Use --dialog")
    args = ",".join(map(toml, server.args))
    return f"--config=mcp_servers.{server.name}={{command={toml(server.command)},args=[{args}]}}"


def native_image(a: Attachment) -> bool:
    return a.image and a.content is None and "," not in a.path  # `--image` splits at commas
