"""script: the scripted agent that ships with ostler, one-shot, in dialogs and in its own screen."""
