"""gemini: Google's Gemini CLI, one-shot, in dialogs (ACP) and in its own screen."""
