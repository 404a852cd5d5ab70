"""The commented project file that `ostler init` writes."""


def template() -> str:
    """The commented ostler.toml of `ostler init`: `#key = value` lines are settings, `# …` lines prose."""
    return _TEMPLATE


_TEMPLATE = """\
# ostler.toml — settings of this project. Everything here is optional: remove a leading `#` to use a line.
# Keys marked (trust) count only after `ostler trust`, since they run programs, widen access, lose data
# or choose who works and what it is told.

# The agent when `ostler run "…"` names none: claude, codex, gemini, cursor, qwen, opencode, copilot, script: (trust)
#default_agent = "claude"

# What a turn may do: "read", "write" (this folder), "full". Above "read": (trust)
#access = "read"

# Who takes the turn when the agent is missing, logged out, limited or overloaded before it did any work: (trust)
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
# Sessions unused for this many days expire, and `ostler prune` removes them: (trust)
#ttl_days = 30

# "private" gives agents a config folder of their own instead of the user's; `lean` skips plugins: (trust)
#config = "user"
#lean = false

# Agents' hooks tell ostler what they do; "ask": each tool call waits for a rule or a person: (trust)
#hooks = true

# An unanswered ask is denied after this time, and an unused dialog closed after that: (trust)
#ask_limit = "5m"
#dialog_idle = "5m"
# A dialog that has not taken up a prompt after this time is ended, and the turn `undelivered`: (trust)
#dialog_receipt = "30s"

# An agent's own screen (--transport pty): closed when unused; ready, and a prompt taken up, within: (trust)
#tui_idle = "30m"
#tui_start = "60s"
#tui_receipt = "15s"
#tmux = "own"  # or "user": a window in your own tmux session
#tmux_shows = "tui"  # or "output": the command's output instead of the agent's own screen

# Agents whose access may be wider than it says (qwen cannot keep its edits inside the folder): (trust)
#loose = ["qwen"]

# Walls: the kernel keeps a turn to its access, where it can ("off": never, "required": or nothing starts). Further
# paths that can be written behind one, and agents (or exec) that may open unix sockets there: (trust)
#walls = "required"
#wall_paths = ["~/.cache/uv"]
#wall_sockets = ["exec"]

# Behind a wall keys, other agents' logins and browser profiles of your home folder cannot be read:
#read_secrets = false

# How many terminals may live at once in a session, and the megabytes that a recording may take: (trust)
#terminals = 10
#recording_mb = 64

# How deep turns that agents begin through `ostler mcp` may be nested; 0: none: (trust)
#delegation_depth = 2

# The port of `ostler up`; 0: the last one if it is free, else any: (trust)
#port = 0

# A model name decides the agent: (trust)
#[models]
#"gpt-*" = "cursor"

# What to run instead of the agent's binary: (trust)
#[commands]
#claude = ["/opt/claude/bin/claude"]

# Agents that ostler does not know, by the command that speaks ACP on stdio: `ostler run mine "…"`: (trust)
#[acp]
#mine = ["my-agent", "--acp"]

# Any other command line as an agent: `ostler run aider "…" --access full`. The prompt goes to stdin, or where
# {prompt} or {prompt_file} stands; it succeeds by exit code 0, or by a line that matches done_pattern: (trust)
#[agents.aider]
#command = ["aider", "--yes-always", "--model={model}", "--message-file={prompt_file}"]
#title = "Aider"
#description = "Pair programming in a terminal"
#proof = "pattern"
#done_pattern = "^Applied edit to "
#models = ["aider-*"]
#env = { AIDER_ANALYTICS = "false" }
#env_pass = ["OPENAI_API_KEY"]

# MCP servers that a turn can be given: `ostler run --mcp db …`, or `mcp` of a profile: (trust)
#[mcp.db]
#command = "db-server"
#args = ["--read-only"]
#env = { DB_URL = "…" }
#[mcp.wiki]
#url = "https://wiki.example.com/mcp"
#headers = { Authorization = "Bearer …" }
#transport = "http"

# Pipelines that `ostler up` runs at certain times: (trust)
#[schedules.nightly]
#cron = "0 3 * * *"
#pipeline = "review"
#folder = "~/project"
#inputs = { base = "main" }

# A backend that is told of hooks and results ("journal": of all events), at its /api/sessions/ID/events: (trust)
#[forward]
#url = "https://backend.example"
#token_env = "BACKEND_TOKEN"
#what = ["hooks", "results"]

# Who is told that an agent asks, is done, or failed: a command (JSON on stdin), or a POST: (trust)
#[[notify]]
#on = ["asked", "failed"]
#url = "https://ntfy.sh/my-topic"
#shape = "ntfy"

# Further flags of an agent's own CLI, as long as they do not widen its access: (trust)
#[agent_flags]
#claude = ["--effort=high"]

# Seconds, "5m", or "none". A project may lower them; raising is (trust).
#[limits]
#first_record = 90
#idle = "10m"
#total = "1h"
#retry = 60
#linger = 5
#cost_usd = 2.50

# How many turns may run at once on this machine, from all ostler processes together; more of them wait: (trust)
#[pool]
#total = 8
#agents = { claude = 3 }
#accounts = { work = 2 }
#profiles = { reviewer = 1 }
#memory_mb = 8000
#free_memory_mb = 256
#retries = 2
#warm = { claude = 1 }
#warm_seconds = 600

# Dollars a day after which no further turn begins: (trust)
#[spending]
#day = 20.0
#profiles = { reviewer = 5.0 }

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

# An agent under a name of its own: `ostler run reviewer "…"`: (trust)
#[profiles.reviewer]
#agent = "claude"
#model = "opus"
#description = "Reads a change and says what is wrong with it"
#color = "magenta"
#system = "You review code. Be brief and precise."
#system_mode = "append"
#transport = "dialog"
#access = "read"
#tools_denied = ["web"]
#tools_allowed = ["read"]
#first_tools_denied = ["shell"]
#first_tools_allowed = ["read", "search"]
#env = { CI = "1" }
#fallback = ["codex"]
#hooks = true
#agent_flags = ["--effort=high"]
#done_pattern = "REVIEW COMPLETE"
#account = "work"
#priority = 5
#limits = { total = "10m" }
# MCP servers that go with its turns, which need access "full".
#mcp = ["db"]
"""
