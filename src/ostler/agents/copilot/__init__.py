"""copilot: GitHub's Copilot CLI, one-shot, in dialogs (ACP) and in its own screen."""
