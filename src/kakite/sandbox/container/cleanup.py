"""Lists and removes what Kakite keeps on a container engine: images, containers, volumes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from kakite.sandbox.backends import engine, images
from kakite.sandbox.backends.container import reap
from kakite.sandbox.container import remote_engine

if TYPE_CHECKING:
    from kakite.sandbox.backends.engine import ContainerEngine

_CALL = 60.0
_MINE = ("--filter", f"label={engine.OWNER}={engine.get_user_label()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of ours."""

    name: str
    lives: bool
    """Whether who made it may be alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume of ours."""

    name: str
    holds: Literal["cache", "work"]
    since: str
    """When it was made, as the engine says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInventory:
    """All that an engine keeps of this user's."""

    engine: str
    images: tuple[str, ...]
    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """Names of what was removed."""

    containers: tuple[str, ...]
    volumes: tuple[str, ...]


def read_inventory(containers: ContainerEngine) -> EngineInventory:
    """Return what the engine keeps. Blocks.

    Raises:
        SandboxError: the engine does not answer.
    """
    form = "{{.Repository}}:{{.Tag}}"
    labelled = ("--filter", f"label={images.LABEL}")
    tags = containers.call("images", *labelled, "--format", form, timeout=_CALL).split()
    named = containers.call("ps", "--all", *_MINE, "--format", "{{.Names}}", timeout=_CALL).split()
    owned = [(name, engine.parse_owner(name)) for name in named]
    return EngineInventory(
        engine=containers.name,
        images=tuple(sorted(tag for tag in tags if "<none>" not in tag)),
        containers=tuple(Container(name=name, lives=not owner or owner.is_alive()) for name, owner in owned),
        volumes=_list_volumes(containers),
    )


def prune(containers: ContainerEngine, *, days: int, work: bool = False) -> PruneResult:
    """Remove containers of dead owners, caches that are older, and on demand work that was left. Blocks.

    Raises:
        SandboxError: the engine does not answer.
    """
    dead = reap(containers)
    before = datetime.now(UTC) - timedelta(days=days)
    volumes = _list_volumes(containers)
    old = [
        volume.name
        for volume in volumes
        if (work if volume.holds == "work" else _parse_created(volume.since) <= before)
    ]
    gone = _remove(containers, [name for name in old if not remote_engine.is_mark(name)])
    # No container uses a mark: it stays for as long as there is something of the task that it is for.
    kept = {
        remote_engine.get_task_prefix(volume.name)
        for volume in volumes
        if not remote_engine.is_mark(volume.name)
    }
    kept -= {remote_engine.get_task_prefix(name) for name in gone}
    marks = [
        name
        for name in old
        if remote_engine.is_mark(name) and remote_engine.get_task_prefix(name) not in kept
    ]
    return PruneResult(containers=tuple(dead), volumes=(*gone, *_remove(containers, marks)))


def _remove(containers: ContainerEngine, names: list[str]) -> list[str]:
    """Remove volumes and return those that are gone: the engine refuses for one that is in use."""
    return [name for name in names if containers.ask("volume", "rm", name, timeout=_CALL).returncode == 0]


def _list_volumes(containers: ContainerEngine) -> tuple[Volume, ...]:
    names = containers.call("volume", "ls", *_MINE, "--format", "{{.Name}}", timeout=_CALL).split()
    if not names:
        return ()
    told: list[dict[str, Any]] = json.loads(containers.call("volume", "inspect", *names, timeout=_CALL))
    return tuple(
        Volume(
            name=volume["Name"],
            holds="cache" if engine.CACHE in volume["Labels"] else "work",
            since=volume["CreatedAt"],
        )
        for volume in told
    )


def _parse_created(since: str) -> datetime:
    """Return when that was; what cannot be read counts as new."""
    try:
        made = datetime.fromisoformat(since)
    except ValueError:
        return datetime.now(UTC)
    return made if made.tzinfo else made.replace(tzinfo=UTC)
