"""Loads skills (https://agentskills.io): folders with a SKILL.md, of which a prompt lists the descriptions.

A skill gives the model a text and nothing else: what it says of tools that it may use allows nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kakite.agent.front_matter import FrontMatterError
from kakite.agent.run.agents_md import decode_text
from kakite.agent.session.context.documents import MarkdownDocument, parse_markdown
from kakite.agent.session.context.project import (
    ContextProblem,
    Origin,
    PersonFolders,
    PersonSourceFolder,
    Project,
    ProjectSourceFolder,
    SourceFile,
    SourceFolder,
    to_problem,
)
from kakite.agent.session.context.secret_files import is_secret
from kakite.workspace import Workspace, WorkspaceError

FILE_NAME = "SKILL.md"
MAX_SKILLS = 500
MAX_SKILL_BYTES = 128 * 1024
"""Bytes that are read of one file of a skill."""
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_LIST = 8000
"""Characters of the list in a prompt."""
_MAX_FILES = 100  # of a skill, that are named beside its text
_SHORTEST = 60  # characters that a description keeps while others are listed too
_NAME = re.compile(r"[^\W_A-Z]+(?:-[^\W_A-Z]+)*")
_OWN = {"name", "description"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill: what a prompt says of it, and where the rest is."""

    name: str
    description: str
    path: str
    """Of its SKILL.md, as the session names it; ``~`` stands for the person's home."""
    origin: Origin
    folder: str
    """The absolute path of its folder."""
    root: str
    """The folder that nothing of the skill is read outside of: the project's root, or the skill's own."""
    is_listed: bool = True
    """Whether the model may choose it; else only the person does (``disable-model-invocation``)."""
    fields: Mapping[str, str | list[str]] = field(default_factory=dict[str, str | list[str]])
    """What else its front matter says, such as ``license`` or ``allowed-tools``. It gives no rights."""


def load_skills(
    project: Project, person: PersonFolders
) -> tuple[tuple[Skill, ...], tuple[ContextProblem, ...]]:
    """Return the skills of the project and the person, sorted by name, and what is wrong with others.

    Of two with one name the project's counts, there the one whose folder is nearest to the session's, and
    ``.agents`` before ``.claude``. Never raises.
    """
    found: dict[str, Skill] = {}
    problems: list[ContextProblem] = []
    seen: set[str] = set()
    for folder in _list_folders(project, person):
        for name in _list_names(folder, problems):
            skill = _load(folder, name, seen, problems)
            if skill is None:
                continue
            if skill.name in found:
                told = f"`{found[skill.name].path}` has the same name, and counts"
                problems.append(ContextProblem(path=skill.path, message=told))
            elif len(found) < MAX_SKILLS:
                found[skill.name] = skill
    return tuple(found[name] for name in sorted(found)), tuple(problems)


def format_skill_list(skills: Iterable[Skill], *, most: int = MAX_LIST) -> str:
    """Return what a prompt says of the skills, a line each; empty if there are none.

    Where that needs more than ``most`` characters, descriptions are cut, then skills left out, which is said.
    """
    listed = [skill for skill in skills if skill.is_listed]
    heads = [f"- {skill.name} ({_to_line(skill.path)}): " for skill in listed]
    if not listed:
        return ""
    note = "- … and {} more, which there is no room for\n"
    while heads and sum(map(len, heads)) + (_SHORTEST + 1) * len(heads) > most - len(note) - 5:
        heads.pop()
    left_out = len(listed) - len(heads)
    room = most - len(note) - 5 - sum(map(len, heads)) - len(heads)
    texts = _fit([_to_line(skill.description) for skill in listed[: len(heads)]], room)
    lines = [f"{head}{text}\n" for head, text in zip(heads, texts, strict=True)]
    return "".join(lines) + (note.format(left_out) if left_out else "")


def read_skill(skill: Skill, file: str = FILE_NAME) -> str:
    """Return the text of a skill, or of a further file in its folder.

    Raises:
        WorkspaceError: it cannot be read, or lies out of the skill's folder.
    """
    workspace = Workspace([skill.root])
    try:
        view = workspace.at(skill.folder)
        text = _read_text(view, skill, file)
        if file != FILE_NAME:
            return text
        files = sorted(_list_files(view))
    finally:
        workspace.close()
    try:
        body = parse_markdown(text).body.strip()
    except FrontMatterError:  # somebody is at it just now
        body = text
    return f"{body}\n\n{_describe_folder(skill, files)}"


def _read_text(view: Workspace, skill: Skill, file: str) -> str:
    found = view.read(file)
    if is_secret(file) or is_secret(found.path):
        told = f"`{file}` of the skill `{skill.name}` may hold secrets"
        raise WorkspaceError("no_permission", file, told, hint="ask the person for what you need of it")
    text = decode_text(found.data, MAX_SKILL_BYTES)
    if found.data and not text:
        raise WorkspaceError("not_a_file", file, f"`{file}` of the skill `{skill.name}` is no text")
    return text


def _describe_folder(skill: Skill, files: list[str]) -> str:
    told = f"Relative paths of this skill begin at its folder, `{skill.folder}`."
    listed = "".join(f"- `{name}`\n" for name in files)
    return f"{told} It has these files:\n\n{listed}" if files else f"{told}\n"


def _list_files(view: Workspace) -> Iterator[str]:
    for entry in view.walk(".", depth=3, limit=_MAX_FILES):
        if not entry.is_folder and entry.path != FILE_NAME and entry.path.isprintable():
            yield entry.path


def _list_folders(project: Project, person: PersonFolders) -> Iterator[SourceFolder]:
    for level in reversed(project.list_levels()):
        for name in (".agents/skills", ".claude/skills"):
            yield ProjectSourceFolder(project, posixpath.join(level, name))
    for path in (
        person.kakite / "skills",
        person.home / ".agents/skills",
        person.home / ".claude/skills",
    ):
        yield PersonSourceFolder(person, path)


def _list_names(folder: SourceFolder, problems: list[ContextProblem]) -> tuple[str, ...]:
    try:
        return folder.list(1)
    except WorkspaceError as error:
        problems.append(to_problem(folder.show("."), error))
        return ()


def _load(folder: SourceFolder, name: str, seen: set[str], problems: list[ContextProblem]) -> Skill | None:
    """Return the skill in this folder; None if there is none, or none that can be used."""
    file = f"{name}/{FILE_NAME}"
    shown = folder.show(file)
    try:
        found = folder.read(file, MAX_SKILL_BYTES)
    except WorkspaceError as error:
        problems.append(to_problem(shown, error))
        return None
    if found is None or found.real in seen:
        return None
    seen.add(found.real)
    try:
        document = parse_markdown(decode_text(found.data, MAX_SKILL_BYTES))
    except FrontMatterError as error:
        problems.append(ContextProblem(path=shown, message=str(error), line=error.line))
        return None
    if found.is_secret or not _is_own(folder, name, found):
        problems.append(ContextProblem(path=shown, message="it is left out: it is a link to another file"))
        return None
    return _build(folder, name, document, problems)


def _is_own(folder: SourceFolder, name: str, found: SourceFile) -> bool:
    """Return whether a skill's file lies where the rest of the skill is read."""
    return isinstance(folder, ProjectSourceFolder) or found.real.startswith(f"{folder.locate(name)}/")


def _build(
    folder: SourceFolder,
    name: str,
    document: MarkdownDocument,
    problems: list[ContextProblem],
) -> Skill | None:
    shown = folder.show(f"{name}/{FILE_NAME}")

    def tell(message: str, line: int = 1) -> None:
        problems.append(ContextProblem(path=shown, message=message, line=line))

    description = document.get("description")
    if not description:
        tell("it is left out: the front matter has no `description`")
        return None
    if len(description) > MAX_DESCRIPTION:
        tell(f"the description has more than {MAX_DESCRIPTION} characters", document.find_line("description"))
    chosen = document.get("name")
    own = posixpath.basename(name)
    if chosen != own:
        tell(f"`name` should be `{own}`, as its folder is called", document.find_line("name"))
    usable = next((each for each in (chosen, own) if is_skill_name(each)), None)
    if usable is None:
        tell("it is left out: a name has lower-case letters, digits and single hyphens, at most 64")
        return None
    place = folder.locate(name)
    return Skill(
        name=usable,
        description=description[:MAX_DESCRIPTION],
        path=shown,
        origin=folder.origin,
        folder=place,
        root=folder.project.workspace.folder if isinstance(folder, ProjectSourceFolder) else place,
        is_listed=not document.is_on("disable-model-invocation"),
        fields={key: value for key, value in document.settings.items() if key not in _OWN},
    )


def is_skill_name(name: str) -> bool:
    """Return whether the specification allows this name."""
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None and name == name.lower()


def _to_line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in " ".join(text.split()))


def _fit(texts: list[str], room: int) -> list[str]:
    """Return the texts, the longest ones cut so that all have room together."""
    if sum(map(len, texts)) <= room:
        return texts
    share = max(room // max(len(texts), 1), 1)
    spare = sum(max(share - len(text), 0) for text in texts)
    long = sum(len(text) > share for text in texts)
    most = share + spare // max(long, 1)
    return [text if len(text) <= most else f"{text[: most - 1]}…" for text in texts]
