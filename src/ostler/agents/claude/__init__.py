"""claude: Anthropic's Claude Code, one-shot (`claude -p`), in dialogs (stream-json both ways) and in its own screen."""
