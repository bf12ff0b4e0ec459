"""What a session is given besides the messages: instructions, skills, commands, and what ``@`` names."""

from kakite.agent.session.context.commands import (
    SlashCommand,
    expand_command,
    load_commands,
    load_shipped_commands,
)
from kakite.agent.session.context.completion import complete_mention, list_paths
from kakite.agent.session.context.instructions import (
    Instruction,
    Instructions,
    find_nested,
    format_instructions,
    load_instructions,
)
from kakite.agent.session.context.mentions import ExpandedMessage, Mention, build_image, expand_mentions
from kakite.agent.session.context.project import (
    ContextProblem,
    PersonFolders,
    Project,
    get_person_folders,
    open_project,
)
from kakite.agent.session.context.skills import Skill, format_skill_list, load_skills, read_skill

__all__ = [
    "ContextProblem",
    "ExpandedMessage",
    "Instruction",
    "Instructions",
    "Mention",
    "PersonFolders",
    "Project",
    "Skill",
    "SlashCommand",
    "build_image",
    "complete_mention",
    "expand_command",
    "expand_mentions",
    "find_nested",
    "format_instructions",
    "format_skill_list",
    "get_person_folders",
    "list_paths",
    "load_commands",
    "load_instructions",
    "load_shipped_commands",
    "load_skills",
    "open_project",
    "read_skill",
]
