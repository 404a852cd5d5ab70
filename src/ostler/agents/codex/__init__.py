"""codex: OpenAI's Codex CLI, one-shot (`codex exec`) and in dialogs (`codex app-server`)."""
