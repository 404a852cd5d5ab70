"""opencode: one-shot (`opencode run`) and in dialogs (ACP)."""
