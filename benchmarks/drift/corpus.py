"""Real files to edit: the Python standard library, an npm package, and texts written for this benchmark."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

TEXTS = Path(__file__).parent / "texts"
_MODULES = """
argparse ast base64 bdb bisect calendar cmd codecs collections/__init__ configparser contextlib copy
csv dataclasses difflib dis doctest email/message enum fileinput fnmatch ftplib functools getopt
gettext glob gzip heapq html/parser http/client http/server imaplib inspect ipaddress json/decoder
json/encoder logging/__init__ logging/handlers mailbox mimetypes netrc nntplib ntpath numbers
optparse pathlib pdb pickle pickletools plistlib poplib pprint profile queue random reprlib sched
selectors shelve shlex shutil smtplib socketserver statistics string subprocess tarfile tempfile
textwrap threading timeit tokenize trace traceback turtle types typing unittest/case unittest/mock
urllib/parse urllib/request uuid wave weakref xml/dom/minidom xmlrpc/client zipfile
"""


@dataclass(frozen=True, slots=True)
class Source:
    r"""A file of the corpus, with ``\\n`` as line ends and no byte order mark."""

    name: str
    language: str
    lines: tuple[str, ...]


def load() -> list[Source]:
    """Return all files that can be had on this machine. Python and the texts always can."""
    library = Path(sysconfig.get_path("stdlib"))
    paths = [(library / f"{module}.py", "python") for module in _MODULES.split()]
    paths += [(path, "javascript") for path in _javascript()]
    paths += [(path, path.stem) for path in sorted(TEXTS.glob("*.md"))]
    sources = [_read(path, language) for path, language in paths if path.exists()]
    return [source for source in sources if source is not None]


def _read(path: Path, language: str) -> Source | None:
    text = path.read_bytes().decode("utf-8", "ignore")
    if "\r" in text or not 40 <= text.count("\n") <= 6000:
        return None
    return Source(path.name, language, tuple(text.removesuffix("\n").split("\n")))


def _javascript() -> list[Path]:
    """Return files of npm itself, which is an npm package; or of a package fetched with ``npm pack``."""
    npm = shutil.which("npm")
    if npm is None:
        return []
    found = subprocess.run(
        [npm, "root", "-g"], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    root = Path(found.stdout.strip()) / "npm"
    if not root.is_dir():
        root = _packed(npm)
    return sorted(path for path in root.rglob("*.js") if 60 <= path.read_bytes().count(b"\n") <= 3000)[:300:3]


def _packed(npm: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="drift-"))
    subprocess.run([npm, "pack", "npm@10"], cwd=folder, capture_output=True, timeout=300, check=False)
    for archive in folder.glob("*.tgz"):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return folder
