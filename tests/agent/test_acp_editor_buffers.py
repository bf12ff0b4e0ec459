"""The files of an editor that does not answer, or goes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.acp.editor_buffers import EditorBuffers
from kakite.agent.toolsets.buffer_editor import BufferEditor
from kakite.tools.editor.edit_formats import EditorOptions
from kakite.tools.toolset import ToolCall
from kakite.workspace import Workspace, WorkspaceError

pytestmark = pytest.mark.anyio


class Silent:
    """An editor that never answers, or is gone."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def read_text_file(self, session_id: str, path: str, **_more: Any) -> Any:
        assert (path, session_id) == ("/shown/a", "s")
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()

    async def write_text_file(self, *_: Any, **_more: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize("error", [None, ConnectionError("gone")])
async def test_a_silent_editor_is_waited_for_no_longer_than_that(
    tmp_path: Path, error: Exception | None
) -> None:
    (tmp_path / "a").write_text("a\n", encoding="utf-8")
    buffers = EditorBuffers(
        client=Silent(error),
        project=tmp_path,
        can_write=True,
        loop=asyncio.get_running_loop(),
        session_id="s",
        timeout=0.1,
    )
    buffers.project = Path("/shown")  # as through a link that the editor was opened by
    files = Workspace([tmp_path])
    files.buffers = buffers
    with pytest.raises(WorkspaceError) as caught:
        await asyncio.to_thread(files.read, "a")
    assert caught.value.code == "buffer_failed"
    assert "/shown/a" in caught.value.message


async def test_what_commands_can_only_read_is_not_written_here_either(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".githooks").mkdir(parents=True)
    hook = project / ".githooks/pre-commit"
    hook.write_text("exit 0\n", encoding="utf-8")
    buffers = EditorBuffers(
        client=Silent(), project=project, can_write=True, loop=asyncio.get_running_loop(), is_paused=True
    )
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    editor = BufferEditor(project, "/inside", buffers, EditorOptions(), environ, sealed=(".git", ".githooks"))
    await editor.start()
    try:
        changed = {"command": "str_replace", "path": ".githooks/pre-commit", "old_str": "0", "new_str": "1"}
        created = {"command": "create", "path": "/inside/.githooks/new", "file_text": "evil\n"}
        for arguments in (changed, created):
            result = await editor.call(ToolCall(id="1", name="text_editor", arguments=arguments))
            assert (result.is_error, result.code) == (True, "write_denied")
    finally:
        await editor.stop()
    assert [each.read_text(encoding="utf-8") for each in hook.parent.iterdir()] == ["exit 0\n"]
