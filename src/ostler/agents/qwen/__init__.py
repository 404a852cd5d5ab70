"""qwen: Qwen Code, one-shot, in dialogs (stream-json both ways) and in its own screen."""
