"""The prompts of the server for files: how to make an edit land, review it, and rename a name everywhere.

They name the tools of the sets ``editor`` and ``files``, and what those refuse.
"""

from __future__ import annotations

from collections.abc import Mapping

from kakite.serve.server import Prompt

PATH = "path"
"""The argument of each prompt that names a file, or for reviews and renames a folder."""

_LAND = """\
Change this file with the tool `text_editor`: {path}

{change}
{refusal}
1. View the lines that the change is about. They may differ from what you remember: somebody may have edited
   the file since.
2. Quote them as they stand now, in `old_str` of `str_replace`. A few whole lines that occur once are best.
3. If the call is refused, nothing was changed. Its answer begins with a code:
   - `not_found`: your quote is not in the file. The answer shows the lines that are the most like it. If it
     suggests an edit and its diff is exactly what you mean, send `accept` with its `suggestion` id;
     otherwise quote those lines.
   - `stale`, `changed_since_read`: somebody changed the text meanwhile. Read the difference that the answer
     shows, decide whether the change is still right, and quote the new text.
   - If the quote names several places, add a line above or below it. Use `replace_all` only if you mean all
     of them.
   - `write_denied`: tools never write this file. Say so, and stop.
4. Put changes that belong together into one `edit` call: all of them land, or none.
5. Never write the whole file anew to get around a refusal: that would undo what others changed.
6. View the result, and say in one sentence what changed."""

_REFUSAL = """
The last try was refused:

{refusal}
"""

_REVIEW = """\
Review the edits in {path} as a careful colleague would. Change nothing.
{goal}
1. Read the changed places whole, and what surrounds them, with `read_files` or `view`. If you do not know
   which places changed, ask, or compare with what this conversation says.
2. Search with `find_in_files` (`whole_word`) for each name that was changed or removed: callers, tests,
   documents and settings may still use the old one.
3. Look at what edits often break: indentation and brackets at the borders of the change, lines that stand
   there twice, imports that are missing or not used any more, edge cases (nothing, one, many), errors that
   nobody handles, comments that are no longer true.
4. Tell what you found, the worst first: the file and the line, what is wrong, what happens because of it,
   and how to mend it. Quote the line. Leave out matters of taste. If you found nothing, say what you looked
   at.
5. If the last edit of a file should be taken back as a whole, say that `undo_edit` does it, and leave that
   to the person."""

_RENAME = """\
Rename `{old}` to `{new}` everywhere in {path}.

1. Search for `{new}` with `find_in_files` (`whole_word`). If it is in use already, say so, and stop.
2. Search for `{old}` with `whole_word`, then again without it and with `ignore_case`, for names that
   contain it. Follow the answers to their end: `offset` skips hits that you have seen.
3. Decide for each hit whether it means the same thing. Words in texts and the same name in another scope
   may not.
4. Make all changes in one `edit` call of `text_editor`, with `preview` first: each of `edits` may have its
   own `path`. Use `replace_all` only in files where every place means it. All of them land, or none.
5. Rename files that carry the name with `move_file`.
6. Search for `{old}` again. Say what is left, and why."""


def _render_land(given: Mapping[str, str]) -> str:
    refusal = given.get("refusal", "").strip()
    told = _REFUSAL.format(refusal=refusal) if refusal else ""
    return _LAND.format(path=given[PATH], change=given["change"].strip(), refusal=told)


def _render_review(given: Mapping[str, str]) -> str:
    goal = given.get("goal", "").strip()
    told = (
        f"\nWhat they are for: {goal}\nSay first whether they do that, and nothing beside it.\n"
        if goal
        else ""
    )
    return _REVIEW.format(path=given.get(PATH, "").strip() or "this workspace", goal=told)


def _render_rename(given: Mapping[str, str]) -> str:
    where = given.get(PATH, "").strip() or "this workspace"
    return _RENAME.format(old=given["old"].strip(), new=given["new"].strip(), path=where)


EDIT_PROMPTS = (
    Prompt(
        name="land_edit",
        title="Make an edit land",
        description="Make a change in a file that others edit too, or after a refused edit",
        arguments={
            PATH: "The file to change",
            "change": "What to change",
            "refusal": "The answer to an edit that was refused, if there was one",
        },
        required=frozenset({PATH, "change"}),
        text=_render_land,
    ),
    Prompt(
        name="review_edit",
        title="Review an edit",
        description="Look for what is wrong in files that were edited, without changing anything",
        arguments={PATH: "The file or folder; left out: all", "goal": "What the edits are for"},
        text=_render_review,
    ),
    Prompt(
        name="rename",
        title="Rename a name everywhere",
        description="Rename a function, a class, a setting or another name in all files that use it, at once",
        arguments={"old": "The name", "new": "The new name", PATH: "The file or folder; left out: all"},
        required=frozenset({"old", "new"}),
        text=_render_rename,
    ),
)
