"""The lines of one hunk: kept, removed and added ones."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Hunk:
    """A hunk while it is being read."""

    scope: tuple[str, ...] = ()
    """Lines that the place must stand below."""
    heading: str = ""
    """A line that may stand above the place."""
    lines: list[str] = field(default_factory=list[str])
    """With their first character; an empty line stands for an empty line that is kept."""
    open_search: bool = False
    open_replace: bool = False

    def takes(self, text: str) -> bool:
        """Take a line if it belongs to the hunk."""
        if text.startswith("\\"):
            self._mark_open()
            return True
        if text and text[0] not in " +-\t":
            return False
        self.lines.append(text if text[:1] != "\t" else " " + text)
        return True

    @property
    def ends_blank(self) -> bool:
        """Whether the hunk may be over: its last line is empty."""
        return bool(self.lines) and not self.lines[-1]

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
