"""Defines the error for a reply that is no valid list of edits. It says how to write the reply right."""

from __future__ import annotations

from typing import Literal

from kakite.errors import KakiteError

FormatName = Literal["search_replace", "udiff", "apply_patch", "json", "xml", "whole", "auto"]

FORMAT_EXAMPLES: dict[FormatName, str] = {
    "search_replace": """\
path/of/file.py
<<<<<<< SEARCH
lines as they stand in the file
=======
lines that replace them
>>>>>>> REPLACE""",
    "udiff": """\
--- a/path/of/file.py
+++ b/path/of/file.py
@@ @@
 context line
-line to remove
+line to add""",
    "apply_patch": """\
*** Begin Patch
*** Update File: path/of/file.py
@@
 context line
-line to remove
+line to add
*** End Patch""",
    "json": """\
[{"path": "path/of/file.py", "search": "lines as they stand", "replace": "lines that replace them"}]""",
    "xml": """\
<invoke name="str_replace">
<parameter name="path">path/of/file.py</parameter>
<parameter name="old_str">lines as they stand</parameter>
<parameter name="new_str">lines that replace them</parameter>
</invoke>""",
    "whole": """\
path/of/file.py
```
all lines of the file
```""",
}
"""The right form of each format, to copy."""


class FormatError(KakiteError):
    """A reply is not a list of edits. Nothing of it is applied.

    Codes: ``marker_sequence`` (a marker is missing or out of order), ``bad_content`` (what stands between the
    markers cannot be an edit), ``no_edits`` (there is none), ``too_many_edits``.
    """

    code = "marker_sequence"

    def __init__(
        self,
        message: str,
        *,
        name: FormatName,
        line: int,
        found: str,
        expected: str,
        code: str | None = None,
    ) -> None:
        form = FORMAT_EXAMPLES.get(name, FORMAT_EXAMPLES["search_replace"])
        super().__init__(message, hint=f"Write each edit like this:\n{form}", code=code)
        self.format: FormatName = name
        self.line = line
        """Line of the reply, 1-based; the one after the last where something is missing at its end."""
        self.found = found
        self.expected = expected


def make_format_error(
    name: FormatName, line: int, found: str, expected: str, code: str | None = None
) -> FormatError:
    """Return the error of a line that cannot stand where it does."""
    shown = f"`{found.strip()[:100]}`" if found else "the end of the reply"
    message = f"line {line} of the reply: expected {expected}, found {shown}"
    return FormatError(message, name=name, line=line, found=found, expected=expected, code=code)
