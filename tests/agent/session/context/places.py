"""A project and a person's folders, made of what a test says is in them."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kakite.agent.session.context import PersonFolders, Project, get_person_folders, open_project

Content = str | bytes
"""What a file holds; of a link, ``->`` and where it leads."""


@dataclass(frozen=True)
class Places:
    """Where a test has its files."""

    root: Path
    project: Project
    person: PersonFolders


def write(folder: Path, files: Mapping[str, Content]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("->"):
            path.symlink_to(content[2:])
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def make_places(
    files: Mapping[str, Content] | None = None,
    *,
    folder: str = ".",
    home: Mapping[str, Content] | None = None,
    git: bool = True,
) -> Generator[Places]:
    """Make a repository with these files, a person's home, and ``outside``, which nothing may read."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        root, own = base / "project", base / "home"
        (root / folder).mkdir(parents=True)
        own.mkdir()
        if git:
            (root / ".git").mkdir()
        write(base, {"outside/file.md": OUTSIDE, "outside/skills/stolen/SKILL.md": OUTSIDE_SKILL})
        write(root, files or {})
        write(own, home or {})
        environ = {"HOME": str(own), "XDG_STATE_HOME": str(base / "state")}
        project = open_project(root / folder, environ)
        try:
            yield Places(root, project, get_person_folders(environ))
        finally:
            project.workspace.close()


OUTSIDE = "what lies outside"
OUTSIDE_SKILL = f"---\nname: stolen\ndescription: {OUTSIDE}\n---\n{OUTSIDE}\n"
