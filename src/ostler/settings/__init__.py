"""One typed Settings: defaults < user file < project file < environment < flags.

Only the two TOML files and the list of trusted project files are read here; the environment is
handed in. A project file comes with a repository, so what it may say without trust is a short list.
"""

from ostler.settings.check import nearest
from ostler.settings.files import PROJECT_FILE, file_layer, find_project_file, user_file, user_layer
from ostler.settings.keys import (
    AskRule,
    Forward,
    Loaded,
    McpEntry,
    Notify,
    Profile,
    Ruling,
    ScheduleEntry,
    Settings,
    SharedSpending,
    Spending,
    TokenSource,
    positive,
    seconds,
)
from ostler.settings.load import load_settings, trust_file, user_state_folder
from ostler.settings.trust import (
    FolderAnswers,
    ScheduledFile,
    Trust,
    digest,
    record_answer,
    record_schedule,
    record_trust,
    recorded_answers,
    recorded_trust,
    scheduled_files,
    unsafe_keys,
)

__all__ = [
    "PROJECT_FILE",
    "AskRule",
    "FolderAnswers",
    "Forward",
    "Loaded",
    "McpEntry",
    "Notify",
    "Profile",
    "Ruling",
    "ScheduleEntry",
    "ScheduledFile",
    "Settings",
    "SharedSpending",
    "Spending",
    "TokenSource",
    "Trust",
    "digest",
    "file_layer",
    "find_project_file",
    "load_settings",
    "nearest",
    "positive",
    "record_answer",
    "record_schedule",
    "record_trust",
    "recorded_answers",
    "recorded_trust",
    "scheduled_files",
    "seconds",
    "trust_file",
    "unsafe_keys",
    "user_file",
    "user_layer",
    "user_state_folder",
]
