"""The lines of one hunk: kept, removed and added ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from kakite.edit.formats.paths import is_path


@dataclass(slots=True)
class Hunk:
    """A hunk while it is being read."""

    scope: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list[str])
    """With their first character; an empty line stands for an empty line that is kept."""
    open_search: bool = False
    open_replace: bool = False

    def takes(self, text: str) -> bool:
        """Take a line if it belongs to the hunk."""
        if text.startswith("\\"):
            self._mark_open()
            return True
        if text.startswith(("--- ", "+++ ")) and self._is_header(text):
            return False
        if text and text[0] not in " +-\t":
            return False
        self.lines.append(text if text[:1] != "\t" else " " + text)
        return True

    def _is_header(self, text: str) -> bool:
        """Tell a file header from a removed line that starts with two dashes."""
        path = text[4:].partition("\t")[0].strip().strip('"')
        return path == "/dev/null" or is_path(path)

    def _mark_open(self) -> None:
        last = self.lines[-1][:1] if self.lines else ""
        self.open_search = self.open_search or last in {" ", "-"}
        self.open_replace = self.open_replace or last in {" ", "+"}

    @property
    def _body(self) -> list[str]:
        lines = list(self.lines)
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def search(self) -> str:
        """The kept and removed lines."""
        return _joined(
            [line[1:] for line in self._body if line[:1] in {"", " ", "-"}], is_open=self.open_search
        )

    @property
    def replace(self) -> str:
        """The kept and added lines."""
        return _joined(
            [line[1:] for line in self._body if line[:1] in {"", " ", "+"}], is_open=self.open_replace
        )


def _joined(lines: list[str], *, is_open: bool) -> str:
    text = "".join(line + "\n" for line in lines)
    return text.removesuffix("\n") if is_open else text
