"""Make a file of recorded edits from public transcripts of aider: each edit with the file as it was.

    python benchmarks/drift/transcripts.py [OUT] [--swe-bench REPO] [--project OWNER/NAME=REPO]…
        [--chats REPO]…

REPO is a git repository: an address to clone from (into `.cache/transcripts`), or a folder. `--swe-bench` is
a repository like paul-gauthier/aider-swe-bench, with chats in `predictions/`; the files that they are about
are read from the projects' own repositories, by the blobs that the chats' patches name. `--chats` is a
repository that has its `.aider.chat.history.md` in git: its files are read from the commits that the chat
names. OUT is `.cache/recorded.json.xz` unless it is given, where `benchmarks/all.py` looks for it.

The form of OUT is that of `recorded.py`. Whole lines that stand once in their file and were sent to the
letter have one right result; all others have to be judged by hand: `digest_right` and `digest_wrong` are
empty. `now` is what this repository's engine does. What is made is other people's text: it does not belong
into this repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from asking import here
from cases import Case

ROOT = Path(__file__).parents[2]
OUT = ROOT / ".cache" / "recorded.json.xz"
CLONES = ROOT / ".cache" / "transcripts"
CHAT = ".aider.chat.history.md"
BLOCK = re.compile(r"^<{5,9} SEARCH\s*$")
MIDDLE = re.compile(r"^={5,9}\s*$")
END = re.compile(r"^>{5,9} REPLACE\s*$")
COMMIT = re.compile(r"^> Commit ([0-9a-f]{7,40}) ")
FAILED = re.compile(r"^> .*(failed to match|did not conform|failed to exactly match)")
PATCHED = re.compile(r"^diff --git a/(\S+) b/.*\n(?:.*mode.*\n)*index ([0-9a-f]+)\.\.", re.MULTILINE)


@dataclass(frozen=True)
class Sent:
    """An edit as a model sent it."""

    path: str
    search: str
    replace: str


@dataclass
class Reply:
    """The edits of one reply, and what aider told after it."""

    edits: list[Sent] = field(default_factory=list)
    commit: str = ""
    failed: bool = False


@dataclass
class Found:
    """All edits that were found, each once."""

    texts: dict[str, str] = field(default_factory=dict)
    edits: dict[tuple[str, str, str], dict[str, object]] = field(default_factory=dict)

    def add(self, of: str, sent: Sent, text: str) -> None:
        if not sent.search or "\r" in text:
            return
        count = text.count(sent.search)
        lines = ("\n" + text).count("\n" + sent.search)
        kind = "exactN" if lines > 1 else "exact1" if lines == count == 1 else "drift"
        kind = "same" if sent.search == sent.replace else kind
        known = hashlib.sha256(text.encode()).hexdigest()[:16]
        key = (known, sent.search, sent.replace)
        if key in self.edits:
            return
        right = [digest(text.replace(sent.search, sent.replace))] if kind == "exact1" else []
        self.texts[known] = text
        self.edits[key] = {
            "id": f"r{len(self.edits)}",
            "of": of,
            "path": sent.path,
            "kind": kind,
            "text": known,
            "search": sent.search,
            "replace": sent.replace,
            "digest_right": [digest(text)] if kind == "same" else right,
            "digest_wrong": [],
        }


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def replies(chat: str) -> Iterator[list[Reply]]:
    """Yield the replies of each session of a chat's log."""
    for session in re.split(r"(?m)^# aider chat started at .*$", chat)[1:]:
        yield list(_replies(session.split("\n")))


def _replies(lines: list[str]) -> Iterator[Reply]:
    reply = Reply()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("#### ") and reply.edits:
            yield reply
            reply = Reply()
        elif commit := COMMIT.match(line):
            reply.commit = commit.group(1)
        elif FAILED.match(line):
            reply.failed = True
        elif BLOCK.match(line):
            if reply.commit or reply.failed:
                yield reply
                reply = Reply()
            block = _block(lines, at)
            if block is not None:
                sent, at = block
                reply.edits.append(sent)
        at += 1
    if reply.edits:
        yield reply


def _block(lines: list[str], at: int) -> tuple[Sent, int] | None:
    """Return the block that begins at a line, and where it ends."""
    middle = next((n for n in range(at + 1, len(lines)) if MIDDLE.match(lines[n])), None)
    end = next((n for n in range(at + 1, len(lines)) if END.match(lines[n])), None)
    again = next((n for n in range(at + 1, len(lines)) if BLOCK.match(lines[n])), len(lines))
    if middle is None or end is None or not middle < end < again:
        return None
    path = _path(lines, at)
    if path is None:
        return None
    search, replace = (
        "".join(line + "\n" for line in part) for part in (lines[at + 1 : middle], lines[middle + 1 : end])
    )
    return Sent(path, search, replace), end


def _path(lines: list[str], at: int) -> str | None:
    """Return the file that stands above a block, its fence between them."""
    for line in reversed(lines[max(at - 3, 0) : at]):
        told = line.strip().strip("`*:# ")
        if re.fullmatch(r"[\w.@+()\[\]/ -]+\.\w+", told) and not line.lstrip().startswith(">"):
            return told
    return None


class Repository:
    """A git repository that files are read from."""

    def __init__(self, place: str) -> None:
        self.folder = Path(place)
        self._texts: dict[str, str | None] = {}
        if not self.folder.exists():
            name = re.sub(r"\W+", "-", place).strip("-")
            self.folder = CLONES / name
            if not self.folder.exists():
                CLONES.mkdir(parents=True, exist_ok=True)
                subprocess.run(
                    ["git", "clone", "--quiet", "--bare", "--", place, str(self.folder)], check=True
                )

    def git(self, *words: str) -> bytes | None:
        done = subprocess.run(["git", "-C", str(self.folder), *words], capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def text(self, name: str) -> str | None:
        """Return the text of a blob, or of COMMIT:PATH."""
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> str | None:
        data = self.git("cat-file", "blob", name)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return None


def replay(of: str, session: list[Reply], files: dict[str, str], found: Found) -> None:
    """Take down the edits of a session whose files are known as they were at its start."""
    for reply in session:
        for sent in reply.edits:
            text = files.get(sent.path)
            if text is None:
                continue
            found.add(of, sent, text)
            if text.count(sent.search) == 1:
                files[sent.path] = text.replace(sent.search, sent.replace)
            elif not reply.failed:
                del files[sent.path]  # aider may have found it its own way


def of_swe_bench(place: str, projects: dict[str, str], found: Found) -> None:
    """Take down the edits of chats about tasks whose files are in the projects' repositories."""
    chats = Repository(place)
    repositories: dict[str, Repository] = {}
    listed = (chats.git("ls-tree", "-r", "-z", "--name-only", "HEAD", "predictions/") or b"").decode()
    for path in listed.split("\0"):
        project = Path(path).name.rpartition("-")[0].replace("__", "/")
        if not path.endswith(".md") or project not in projects:
            continue
        chat, told = (chats.text(f"HEAD:{Path(path).with_suffix(end)}") for end in (".md", ".json"))
        if chat is None or told is None:
            continue
        repository = repositories.setdefault(project, Repository(projects[project]))
        base = {
            name: text
            for name, blob in blobs(json.loads(told)).items()
            if (text := repository.text(blob)) is not None
        }
        for session in replies(chat):
            replay(Path(path).stem, session, dict(base), found)


def blobs(told: dict[str, object]) -> dict[str, str]:
    """Return the files that a task's patches change, by the blobs that they had."""
    every = told.get("all_results")
    results = (
        [told, *(each for each in every if isinstance(each, dict))] if isinstance(every, list) else [told]
    )
    patches = [str(each.get("model_patch") or "") for each in results]
    return {path: blob for patch in patches for path, blob in PATCHED.findall(patch) if set(blob) != {"0"}}


def of_chats(place: str, found: Found) -> None:
    """Take down the edits of a repository's own chats, whose commits say how the files were."""
    repository = Repository(place)
    seen: set[tuple[str, ...]] = set()
    for version in (
        repository.git("log", "--all", "--diff-filter=AM", "--format=%H", "--", CHAT) or b""
    ).split():
        for session in replies(repository.text(f"{version.decode()}:{CHAT}") or ""):
            key = tuple(sent.search for reply in session for sent in reply.edits)
            if key not in seen:
                seen.add(key)
                _of_session(Path(place.rstrip("/")).name, session, repository, found)
    if not seen:
        print(f"{place}: no {CHAT}")


def _of_session(of: str, session: list[Reply], repository: Repository, found: Found) -> None:
    last = ""
    for reply in session:
        before = f"{reply.commit}^" if reply.commit else last
        last = reply.commit or last
        if not before:
            continue
        paths = {sent.path for sent in reply.edits}
        files = {path: text for path in paths if (text := repository.text(f"{before}:{path}")) is not None}
        replay(of, [reply], files, found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", default=OUT)
    parser.add_argument("--swe-bench", action="append", default=[], metavar="REPO")
    parser.add_argument("--project", action="append", default=[], metavar="OWNER/NAME=REPO")
    parser.add_argument("--chats", action="append", default=[], metavar="REPO")
    asked = parser.parse_args()
    found = Found()
    projects = dict(each.partition("=")[::2] for each in asked.project)
    for place in asked.swe_bench:
        of_swe_bench(place, projects, found)
    for place in asked.chats:
        of_chats(place, found)
    ask = here()
    edits = list(found.edits.values())
    for edit in edits:
        text = found.texts[str(edit["text"])].encode()
        answer = ask(Case(text, str(edit["search"]), str(edit["replace"]), None))
        edit["now"] = answer.code or "landed"
    about = "Edits that models sent to aider in public transcripts, each with the file as it was."
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps({"about": about, "texts": found.texts, "edits": edits}).encode()
    asked.out.write_bytes(lzma.compress(data) if asked.out.suffix == ".xz" else data)
    kinds = (str(edit["kind"]) for edit in edits)
    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    print(f"{len(edits)} edits of {len(found.texts)} texts:", counts)


if __name__ == "__main__":
    main()
