"""A person's folder to work in as it is, and attempts to get out of it or into what git obeys."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.repositories import git

SECRET = "kkt-secret-b81c"
OBEYED = (".git", ".githooks", ".gitsettings", "nested/repo/.git", "sub", "gone")
"""What programs must leave as it is, below the project."""


@dataclass(frozen=True)
class World:
    """A home with secrets, a project in it, and a place outside that tells whether git ran something."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "person"

    @property
    def project(self) -> Path:
        return self.home / "code/mine"

    @property
    def canary(self) -> Path:
        return self.root / "canary"

    @property
    def environ(self) -> dict[str, str]:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"HOME": str(self.home), "PATH": path, "GITHUB_TOKEN": SECRET}

    def snapshot(self) -> Mapping[str, object]:
        """Return all that programs must not change, outside of the project and in it."""
        skipped = {self.project: OBEYED}
        return dict(_look(self.root, self.root, skipped))

    def look_with_git(self) -> subprocess.CompletedProcess[bytes]:
        """Do what the person does next."""
        return subprocess.run(
            ("git", "status", "--short"),
            cwd=self.project,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            timeout=60,
            check=False,
        )

    def clean(self) -> None:
        """Remove from the project what an attempt left in it, beside what was there."""
        kept = {Path(path).parts[0] for path in (*OBEYED, "file", ".gitmodules", "HEAD")}
        for entry in self.project.iterdir():
            if entry.name not in kept:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _look(root: Path, folder: Path, skipped: Mapping[Path, tuple[str, ...]]) -> list[tuple[str, object]]:
    seen: list[tuple[str, object]] = []
    for path in sorted(folder.iterdir()):
        if folder == root and path.name == "task":
            continue
        if folder in skipped:
            inner = {folder / name for name in skipped[folder]}
            seen += [row for name in inner if os.path.lexists(name) for row in _describe(root, name, skipped)]
            return seen
        seen += _describe(root, path, skipped)
    return seen


def _describe(root: Path, path: Path, skipped: Mapping[Path, tuple[str, ...]]) -> list[tuple[str, object]]:
    found = path.lstat()
    name = str(path.relative_to(root))
    told: tuple[object, ...] = (found.st_mode, found.st_uid, found.st_gid)
    if stat.S_ISLNK(found.st_mode):
        return [(name, (*told, path.readlink()))]
    if stat.S_ISDIR(found.st_mode):
        return [(name, (*told, found.st_ino)), *_look(root, path, skipped)]
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else b""
    return [(name, (*told, found.st_ino, found.st_mtime_ns, found.st_nlink, content))]


def make_world(root: Path, *, repository: bool = True) -> World:
    """Make one; its project is a repository, or none."""
    world = World(root)
    for name in (".ssh/id_ed25519", ".netrc", ".bashrc", "code/other/key"):
        file = world.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SECRET, encoding="utf-8")
    world.project.mkdir()
    (world.project / "file").write_text("first\n", encoding="utf-8")
    if repository:
        _fill(world.project)
    return world


def _fill(project: Path) -> None:
    """Make a repository with all that git obeys outside of it, and submodules that are not checked out."""
    git(project, "init", "--quiet")
    (project / ".githooks").mkdir()
    (project / ".githooks/keep").touch()
    (project / ".gitsettings").write_text(
        "[user]\n\tname = Person\n\temail = p@localhost\n", encoding="utf-8"
    )
    git(project, "config", "core.hooksPath", ".githooks")
    git(project, "config", "include.path", "../.gitsettings")
    (project / "nested/repo").mkdir(parents=True)
    git(project / "nested/repo", "init", "--quiet")
    modules = "".join(
        f'[submodule "{path}"]\n\tpath = {path}\n\turl = ./{path}\n' for path in ("sub", "gone/away")
    )
    (project / ".gitmodules").write_text(modules, encoding="utf-8")
    git(project, "add", "file", ".gitmodules", ".gitsettings", ".githooks")
    for path in ("sub", "gone/away"):
        git(project, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{path}")
    (project / "sub").mkdir()
    git(project, "commit", "--quiet", "--message=First")


@dataclass(frozen=True)
class Attempt:
    """What a program tries, in bash or, where it says so, in Python."""

    script: str
    works_alone: bool = True
    """Whether it works where nothing isolates, which a test holds it to."""
    python: bool = False


_EVIL = 'git init -q evil && git -C evil config core.fsmonitor "touch $CANARY; false"; '
_ITSELF = "git -C evil config core.bare false; git -C evil config core.worktree ..; "
_LIBC = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); project = os.environ['P']\n"
_EXCHANGE = """import ctypes, os, subprocess
subprocess.run(["bash", "-c", os.environ["EVIL"]])
ctypes.CDLL(None).renameat2(-100, b"evil/.git", -100, b".git", 2)
"""

ATTEMPTS: Mapping[str, Attempt] = {
    # Into what git obeys
    "write the configuration": Attempt(
        'printf "[core]\\nfsmonitor = touch $CANARY; false\\n" >> .git/config'
    ),
    "write HEAD": Attempt("echo ref: refs/heads/evil > .git/HEAD"),
    "write a hook": Attempt("echo '#!/bin/sh' > .git/hooks/pre-commit"),
    "write a reference": Attempt("mkdir -p .git/refs/heads && echo 1 > .git/refs/heads/evil"),
    "write what is excluded": Attempt("echo '*' >> .git/info/exclude"),
    "write the attributes": Attempt("echo '* filter=evil' > .git/info/attributes"),
    "configure git": Attempt('git config core.fsmonitor "touch $CANARY; false"'),
    "configure git by GIT_DIR": Attempt('cd /tmp && GIT_DIR="$P/.git" git config core.pager evil'),
    "configure git by a worktree": Attempt('git -C nested/repo --git-dir="$P/.git" config core.editor evil'),
    "commit": Attempt("echo second > file; git commit -qam Evil"),
    "stage": Attempt("echo third > file; git add file"),
    "stash": Attempt("echo fourth > file; git stash"),
    "make a branch": Attempt("git branch evil-$RANDOM$RANDOM"),
    "make a tag": Attempt("git tag evil-$RANDOM$RANDOM"),
    "name a remote": Attempt("git remote add evil ext::evil"),
    "initialize submodules": Attempt("git submodule init"),
    "add a worktree": Attempt("git worktree add -f /tmp/evil-$RANDOM$RANDOM"),
    "pack all": Attempt("git gc -q --prune=now"),
    "initialize again with hooks": Attempt(
        "mkdir -p t/hooks; echo x > t/hooks/evil; git init -q --template=t ."
    ),
    "move the repository elsewhere": Attempt("git init -q --separate-git-dir=elsewhere ."),
    "delete the configuration": Attempt("rm -f .git/config"),
    "rename the configuration": Attempt("mv .git/config .git/old"),
    "replace the configuration": Attempt("echo x > new; mv new .git/config"),
    "rename the repository away": Attempt(_EVIL + "mv .git away; mv evil/.git .git"),
    "exchange the repository": Attempt(_EXCHANGE, python=True),
    "delete the repository": Attempt("rm -rf .git"),
    "delete the repository and make one": Attempt(_EVIL + "rm -rf .git; cp -r evil/.git .git"),
    "put a link into the repository": Attempt("ln -sfn ../evil .git"),
    "write through a second name": Attempt("ln .git/config hard && echo x >> hard"),
    "link a file of the project into it": Attempt("ln file .git/hooks/post-checkout"),
    "write through a link": Attempt("ln -s .git/config soft; echo x >> soft"),
    "write through a link to the folder": Attempt("ln -s .git folder; echo x > folder/hooks/evil"),
    "write by way of another folder": Attempt("echo x >> nested/../.git/config"),
    "write from within": Attempt("cd .git && echo x >> config"),
    "truncate the index": Attempt("truncate -s 0 .git/index"),
    "change modes": Attempt("chmod 777 .git .git/config"),
    "make a hook executable": Attempt("touch .githooks/keep; chmod 755 .githooks/keep"),
    "change times": Attempt("touch -d 2001-01-01 .git/config"),
    "make a pipe": Attempt("mkfifo .git/pipe"),
    "make a device": Attempt("mknod .git/device c 1 3", works_alone=False),
    "change the owner": Attempt("chown 4242 .git/config", works_alone=False),
    "map it into memory": Attempt(
        "import mmap, os\nfile = os.open('.git/config', os.O_RDWR)\nmmap.mmap(file, 4)[0:4] = b'evil'",
        python=True,
    ),
    "open a descriptor again": Attempt("exec 3< .git/config; echo x >> /proc/self/fd/3"),
    "go by the root of a process": Attempt('echo x >> "/proc/self/root$P/.git/config"'),
    "go by the folder of a process": Attempt("echo x >> /proc/self/cwd/.git/config"),
    "go by the first process": Attempt(
        'for at in "$P" "$H"; do echo x >> "/proc/1/root$at/.git/config"; done', works_alone=False
    ),
    "go by all processes": Attempt(
        'for at in /proc/[0-9]*/{root$H,cwd}; do echo x >> "$at/.git/config"; done',
        works_alone=False,
    ),
    "mount it writable": Attempt("mount -o remount,bind,rw .git; echo x >> .git/config", works_alone=False),
    "unmount it": Attempt("umount .git; umount -l .git; echo x >> .git/config", works_alone=False),
    "mount something over it": Attempt(_EVIL + "mount --bind evil/.git .git", works_alone=False),
    "unmount it in namespaces of its own": Attempt(
        "unshare -Urm bash -c 'umount -l .git; mount -o remount,bind,rw .git; echo x >> .git/config'",
        works_alone=False,
    ),
    "enter the namespaces of another": Attempt("nsenter -t 1 -m -U bash -c 'umount .git'", works_alone=False),
    "mount a copy of the tree": Attempt(
        _LIBC + "tree = libc.syscall(428, -100, b'.', 0x8001)\nlibc.syscall(442, tree, b'', 0x9000, 0, 0)\n"
        "os.open('.git/config', os.O_WRONLY | os.O_TRUNC, dir_fd=tree)",
        works_alone=False,
        python=True,
    ),
    "open it by its number": Attempt(
        _LIBC + "class Handle(ctypes.Structure):\n"
        "    _fields_ = [('size', ctypes.c_uint), ('kind', ctypes.c_int), ('of', ctypes.c_char * 128)]\n"
        "handle, mount = Handle(size=128), ctypes.c_int()\n"
        "libc.name_to_handle_at(-100, b'.git/config', ctypes.byref(handle), ctypes.byref(mount), 0)\n"
        "file = libc.open_by_handle_at(os.open('.', os.O_RDONLY), ctypes.byref(handle), os.O_WRONLY)\n"
        "os.write(file, b'evil')",
        works_alone=False,
        python=True,
    ),
    # What git obeys elsewhere
    "write a hook where the configuration says": Attempt(
        "cd .githooks; printf '#!/bin/sh\\ntouch '$CANARY > post-index-change; chmod +x post-index-change"
    ),
    "replace the folder of hooks": Attempt("mv .githooks old; mkdir .githooks"),
    "write an included file": Attempt(
        'printf "[core]\\nfsmonitor = touch $CANARY; false\\n" >> .gitsettings'
    ),
    "replace an included file": Attempt(
        'printf "[core]\\nfsmonitor = touch $CANARY; false\\n" > new; mv new .gitsettings'
    ),
    "write a nested repository": Attempt("echo x >> nested/repo/.git/config"),
    "replace a nested repository": Attempt(_EVIL + "mv nested/repo/.git old; mv evil/.git nested/repo/.git"),
    "replace the folder of a nested repository": Attempt(_EVIL + "mv nested/repo old; mv evil nested/repo"),
    "replace a folder further up": Attempt(_EVIL + "mv nested old; mkdir nested; mv evil nested/repo"),
    "make a link of a folder further up": Attempt(
        "mkdir -p fake/repo/.git; mv nested old; ln -s fake nested"
    ),
    "fill a submodule": Attempt(_EVIL + "cp -r evil/.git sub/.git"),
    "replace the folder of a submodule": Attempt(_EVIL + "rmdir sub; mv evil sub"),
    "make the folder of a submodule": Attempt(_EVIL + "mkdir -p gone; mv evil gone/away"),
    "replace what is above a submodule": Attempt(_EVIL + "rmdir gone; mkdir -p gone; mv evil gone/away"),
    # Out of the project
    "write beside the project": Attempt('echo x > ../planted; echo x > "$H/../planted"'),
    "write into the home": Attempt('echo x >> "$PERSON/.bashrc"'),
    "write into another project": Attempt('echo x > "$PERSON/code/other/planted"'),
    "write out by a link": Attempt('ln -s "$PERSON" out; echo x > out/planted'),
    "write out by a link with dots": Attempt(
        "ln -s ../other out; ln -s ../../person/code/other far; echo x > out/planted"
    ),
    "write out by a second name": Attempt('ln "$PERSON/.bashrc" second && echo x >> second'),
    "move something out": Attempt('mkdir moved; mv moved "$PERSON/code/"'),
    "move the project": Attempt('mv "$P" "$P-2"; mv "$H" "$H-2"', works_alone=False),
    "delete what is beside the project": Attempt('rm -rf ../other "$PERSON/code/other"'),
}

PLANTS: Mapping[str, Attempt] = {
    "make a folder": Attempt(_EVIL + "mkdir .git; cp -r evil/.git/. .git/"),
    "initialize": Attempt('git init -q .; git config core.fsmonitor "touch $CANARY; false"'),
    "move a repository there": Attempt(_EVIL + "mv evil/.git .git"),
    "move a repository over": Attempt(_EVIL + "mv -T evil/.git .git"),
    "make a file that leads to one": Attempt(_EVIL + "rmdir .git; echo gitdir: evil/.git > .git"),
    "make a link that leads to one": Attempt(_EVIL + "rmdir .git; ln -s evil/.git .git"),
    "exchange it": Attempt("import os; os.makedirs('.git', exist_ok=True)\n" + _EXCHANGE, python=True),
    "delete what is there": Attempt(_EVIL + "rm -rf .git HEAD; mv evil/.git .git"),
    "clone": Attempt(
        _EVIL + "git clone -q --bare evil .git; git config core.bare false; "
        'git config core.fsmonitor "touch $CANARY"'
    ),
    "be a repository itself": Attempt(_EVIL + _ITSELF + "cp -r evil/.git/. ."),
    "be a repository itself by renames": Attempt(
        _EVIL + _ITSELF + "mv evil/.git/* .; mv -T HEAD x; mv x HEAD"
    ),
    "be a repository itself by links": Attempt(
        _EVIL + _ITSELF + "ln -s evil/.git/{objects,refs,config} .; rm -rf HEAD; ln evil/.git/HEAD HEAD"
    ),
    "be a repository itself by a link for HEAD": Attempt(
        _EVIL + _ITSELF + "cp -r evil/.git/* .; rm -rf HEAD; ln -s refs/heads/main HEAD"
    ),
    "unmount": Attempt(_EVIL + "umount .git HEAD; cp -r evil/.git/. .git/", works_alone=False),
    "unmount in namespaces": Attempt(
        _EVIL + "unshare -Urm bash -c 'umount .git; mv evil/.git .'", works_alone=False
    ),
}
EVIL = _EVIL
