"""The commented project file that `ostler init` writes."""


def template() -> str:
    """The commented ostler.toml of `ostler init`: `#key = value` lines are settings, `# …` lines prose."""
    return _TEMPLATE


_TEMPLATE = """\
# ostler.toml — settings of this project. Everything here is optional: remove a leading `#` to use a line.
# Keys marked (trust) count only after `ostler trust`, since they run programs, widen access or lose data.

# The agent when `ostler run "…"` names none: claude, codex, gemini, cursor, qwen, opencode, copilot, script.
#default_agent = "claude"

# What a turn may do: "read", "write" (this folder), "full". Above "read": (trust)
#access = "read"

# Who takes the turn when the agent is missing, logged out, limited or overloaded before it did any work.
#fallback = ["codex", "gemini"]

# Tools by ostler's words (read, write, shell, web …) or by an agent's own names. Allowing: (trust)
#tools_denied = ["web"]
#tools_allowed = ["read"]

# Variables that agents get beyond the usual ones, and ones to set: (trust)
#env_pass = ["MY_PROXY_*"]
#env = { CI = "1" }

# Further variables whose values never reach disk or screen.
#redact = ["MY_INTERNAL_TOKEN"]

# Where sessions are kept: "user", "project" (.ostler/ here), or a path: (trust)
#state = "user"
# Sessions unused for so many days expire, and `ostler prune` removes them: (trust)
#ttl_days = 30

# "private" gives agents a config folder of their own instead of the user's; `lean` skips plugins: (trust)
#config = "user"
#lean = false

# An ask that nobody answers is denied after this time; a dialog that nobody uses is closed: (trust)
#ask_limit = "5m"
#dialog_idle = "5m"

# Agents whose access may be wider than it says (qwen cannot keep its edits inside the folder): (trust)
#loose = ["qwen"]

# How many terminals may live at once in a session, and the megabytes that a recording may take: (trust)
#terminals = 10
#recording_mb = 64

# The port of `ostler up`; 0: the last one if it is free, else any: (trust)
#port = 0

# A model name decides the agent.
#[models]
#"gpt-*" = "cursor"

# What to run instead of the agent's binary: (trust)
#[commands]
#claude = ["/opt/claude/bin/claude"]

# Agents that ostler does not know, by the command that speaks ACP on stdio: `ostler run mine "…"`: (trust)
#[acp]
#mine = ["my-agent", "--acp"]

# MCP servers that a turn can be given: `ostler run --mcp db …`, or `mcp` of a profile: (trust)
#[mcp.db]
#command = "db-server"
#args = ["--read-only"]
#env = { DB_URL = "…" }
#[mcp.wiki]
#url = "https://wiki.example.com/mcp"
#headers = { Authorization = "Bearer …" }
#transport = "http"

# Seconds, "5m", or "none". A project may lower them; raising is (trust).
#[limits]
#first_record = 90
#idle = "10m"
#total = "1h"
#retry = 60
#linger = 5
#cost_usd = 2.50

# Who answers when an agent asks in a dialog: the first rule that fits; without one, a person. "allow": (trust)
# An allowed command must be a plain one (no `;`, `|`, `$(…)`), an allowed path lies beneath the folder.
#[[asks]]
#answer = "allow"
#agent = "claude"
#tool = "shell"
#command = "git status*"
#[[asks]]
#answer = "deny"
#path = "secrets/*"

# An agent under a name of its own: `ostler run reviewer "…"`.
#[profiles.reviewer]
#agent = "claude"
#model = "opus"
#description = "Reads a change and says what is wrong with it"
#color = "magenta"
#system = "You review code. Be brief and precise."
#access = "read"
#tools_denied = ["web"]
#tools_allowed = ["read"]
#fallback = ["codex"]
#done_pattern = "REVIEW COMPLETE"
#limits = { total = "10m" }
# MCP servers that go with its turns, which need access "full": (trust)
#mcp = ["db"]
"""
