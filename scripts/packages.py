"""Make all that is published, into a folder: ``python -m scripts.packages [FOLDER [COMMIT]]``.

Wheels, source distribution, bundle for desktop clients, and the entries for registries, in the form that each
of them takes. All is made from `pyproject.toml`, the version, the line `mcp-name` of the README and the tools
as the program offers them. Nothing is uploaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from kakite.cli.client_setup import build_stdio_setup, get_root_word
from kakite.tools import open_toolset
from kakite.tools.toolset import Tool
from kakite.workspace import Workspace
from scripts.environment import entries

ROOT = Path(__file__).parents[1]
NOBODY = "OWNER"
"""Stands in the README until somebody has chosen the account that publishes."""
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What all entries say alike."""

    version: str
    description: str
    authors: Sequence[str]
    keywords: Sequence[str]
    requires_python: str
    mcp_name: str
    """The name in the MCP registry, which the README proves."""

    @property
    def owner(self) -> str:
        """The account that the repository, the image and the name in the registry belong to."""
        return self.mcp_name.partition("/")[0].removeprefix("io.github.")

    @property
    def repository(self) -> str:
        """The address of the repository."""
        return f"https://github.com/{self.owner}/kakite"

    @property
    def image(self) -> str:
        """The image of `kakite serve`, with its version."""
        return f"ghcr.io/{self.owner.lower()}/kakite-serve:{self.version}"


def load_facts() -> Facts:
    """Read them from the checkout."""
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    init = (ROOT / "src/kakite/__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE)
    (name,) = re.findall(r"^<!-- mcp-name: (\S+) -->$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return Facts(
        version=version,
        description=project["description"],
        authors=[each["name"] for each in project["authors"]],
        keywords=project["keywords"],
        requires_python=project["requires-python"],
        mcp_name=name,
    )


def build_distributions(into: Path) -> None:
    """Build both wheels and the source distribution of the checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(into)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    wheel = [*command, "--target", "wheel"]
    subprocess.run(wheel, cwd=ROOT / "testing", check=True, stdout=subprocess.DEVNULL)


def list_tools() -> Sequence[Tool]:
    """Return the tools that `kakite serve` offers."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(open_toolset(Workspace([folder])).list_tools())


def list_bundle(facts: Facts, wheel: str) -> Mapping[str, str]:
    """Return the texts of the bundle for desktop clients (.mcpb), which holds this wheel beside them."""
    return {
        "manifest.json": _format(describe_bundle(facts)),
        "pyproject.toml": _format_bundle_project(facts, wheel),
        "server.py": _BUNDLE_SERVER,
    }


def describe_bundle(facts: Facts) -> Mapping[str, Any]:
    """Return the manifest of the bundle, in version 0.4 of its form."""
    return {
        "manifest_version": "0.4",
        "name": "kakite",
        "display_name": "Kakite",
        "version": facts.version,
        "description": facts.description,
        "author": {"name": ", ".join(facts.authors)},
        "repository": {"type": "git", "url": facts.repository},
        "documentation": f"{facts.repository}/blob/main/docs/serve.md",
        "support": f"{facts.repository}/issues",
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "server.py", "${user_config.folders}"],
            },
        },
        "tools": [{"name": tool.name, "description": _shorten(tool)} for tool in list_tools()],
        "keywords": facts.keywords,
        "license": "Apache-2.0",
        "compatibility": {
            "platforms": list(_PLATFORMS),
            "runtimes": {"python": facts.requires_python},
        },
        "user_config": {
            "folders": {
                "type": "directory",
                "title": "Folders",
                "description": _FOLDERS,
                "required": True,
                "multiple": True,
            }
        },
    }


_PLATFORMS = ("linux", "darwin")
_FOLDERS = "The folders that the tools may read and write"
_BUNDLE_SERVER = '''\
"""Serve the folders that are named as arguments."""

import sys

from kakite.__main__ import main

if __name__ == "__main__":
    sys.argv[1:] = ["serve", *(word for folder in sys.argv[1:] for word in ("--root", folder))]
    main()
'''


def _format_bundle_project(facts: Facts, wheel: str) -> str:
    # Without hashes, for uv takes none here; the wheel is inside, and the bundle has a hash of its own.
    locked = [
        f"{one.name}{one.specifier}" + (f" ; {one.marker}" if one.marker else "") for one, _ in entries()
    ]
    platforms = [f"sys_platform == '{each}'" for each in _PLATFORMS]
    return f"""\
[project]
name = "kakite-bundle"
version = "{facts.version}"
requires-python = "{facts.requires_python}"
dependencies = ["kakite[syntax]"]

[tool.uv]
package = false
environments = {json.dumps(platforms)}
constraint-dependencies = {json.dumps(locked, indent=2)}

[tool.uv.sources]
kakite = {{ path = "{wheel}" }}
"""


def build_bundle(facts: Facts, folder: Path) -> Path:
    """Put the bundle beside the wheel that is in the folder: the same bytes whoever does it."""
    wheel = folder / f"kakite-{facts.version}-py3-none-any.whl"
    texts = {name: text.encode() for name, text in list_bundle(facts, wheel.name).items()}
    bundle = folder / f"kakite-{facts.version}.mcpb"
    with zipfile.ZipFile(bundle, "w") as archive:
        for name, data in {**texts, "LICENSE": (ROOT / "LICENSE").read_bytes()}.items():
            archive.writestr(_describe_member(name, zipfile.ZIP_DEFLATED), data)
        archive.writestr(_describe_member(wheel.name, zipfile.ZIP_STORED), wheel.read_bytes())
    return bundle


def _describe_member(name: str, compression: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, date_time=EPOCH)
    member.compress_type = compression
    member.external_attr = 0o100644 << 16
    return member


def describe_server(facts: Facts, *, bundle: str) -> Mapping[str, Any]:
    """Return the entry for the MCP registry (server.json), with the hash of the bundle."""
    transport = {"type": "stdio"}
    folder = {"description": "The folder that the tools may read and write", "format": "filepath"}
    root = {"type": "named", "name": "--root", **folder, "isRequired": True, "isRepeated": True}
    mount = {
        "type": "named",
        "name": "--mount",
        "value": "type=bind,src={folder},dst=/workspace",
        "isRequired": True,
        "variables": {"folder": {**folder, "isRequired": True}},
    }
    release = f"{facts.repository}/releases/download/v{facts.version}"
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": facts.mcp_name,
        "title": "Kakite",
        "description": facts.description,
        "version": facts.version,
        "repository": {"url": facts.repository, "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "kakite",
                "version": facts.version,
                "runtimeHint": "uvx",
                "transport": transport,
                "packageArguments": [{"type": "positional", "value": "serve"}, root],
            },
            {
                "registryType": "oci",
                "identifier": facts.image,
                "runtimeHint": "docker",
                "transport": transport,
                "runtimeArguments": [mount],
            },
            {
                "registryType": "mcpb",
                "identifier": f"{release}/kakite-{facts.version}.mcpb",
                "fileSha256": bundle,
                "transport": transport,
            },
        ],
    }


def format_catalogue_entry(facts: Facts, commit: str) -> str:
    """Return the entry for Docker's MCP catalogue (server.yaml)."""
    return f"""\
name: kakite
image: {facts.image}
type: server
meta:
  category: devops
  tags:
    - edit
    - filesystem
about:
  title: Kakite
  description: "{facts.description}"
source:
  project: {facts.repository}
  commit: "{commit}"
  dockerfile: docker/kakite/Dockerfile
  buildTarget: serve
run:
  volumes:
    - "{{{{kakite.folder}}}}:/workspace"
  disableNetwork: true
config:
  description: The folder that the tools may read and write
  parameters:
    type: object
    properties:
      folder:
        type: string
    required:
      - folder
"""


def list_catalogue_tools() -> Sequence[Mapping[str, Any]]:
    """Return the tools as Docker's MCP catalogue lists them (tools.json)."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "arguments": [
                {"name": name, "type": _find_type(schema), "desc": schema.get("description", "")}
                for name, schema in tool.parameters["properties"].items()
            ],
        }
        for tool in list_tools()
    ]


def _find_type(schema: Mapping[str, Any]) -> str:
    """Return the type of an argument: of several, the first."""
    return next(each["type"] for each in (schema, *schema.get("anyOf", ())) if "type" in each)


def describe_agent(facts: Facts) -> Mapping[str, Any]:
    """Return the entry for the registry of the Agent Client Protocol (agent.json)."""
    return {
        "id": "kakite",
        "name": "Kakite",
        "version": facts.version,
        "description": _AGENT,
        "repository": facts.repository,
        "authors": facts.authors,
        "license": "Apache-2.0",
        "license_url": "https://www.apache.org/licenses/LICENSE-2.0",
        "distribution": {"uvx": {"package": f"kakite[acp]=={facts.version}", "args": ["acp"]}},
    }


_AGENT = (
    "An agent that makes each edit where the model meant it, or not at all, and runs commands in a sandbox"
)


def list_links(program: Sequence[str]) -> Mapping[str, str]:
    """Return the links that add the server to an editor, which starts the program so.

    They lead to pages of the editors' makers, which open the editor: GitHub shows no links to programs.
    """
    vscode = _write_link_word(_find_entry("vscode", program))
    cursor = b64encode(_write_link_word(_find_entry("cursor", program)).encode()).decode()
    return {
        "VS Code": "https://vscode.dev/redirect/mcp/install?" + _write_query(vscode),
        "Cursor": "https://cursor.com/en/install-mcp?" + _write_query(cursor),
    }


def _write_link_word(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, separators=(",", ":"))


def _write_query(config: str) -> str:
    return urlencode({"name": "kakite", "config": config}, quote_via=quote)


def _find_entry(client: str, program: Sequence[str]) -> Mapping[str, Any]:
    """Return what stands for the server in a client's file."""
    setup = build_stdio_setup(client, "kakite", [*program, "serve", "--root", get_root_word(client)])
    ((servers),) = json.loads(setup.text).values()
    return servers["kakite"]


def _shorten(tool: Tool) -> str:
    """Return the first sentence of what a tool says of itself."""
    return re.split(r"(?<=\.)\s", tool.description, maxsplit=1)[0]


def _format(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def write_entries(facts: Facts, folder: Path, commit: str) -> None:
    """Write what registries and catalogues take, beside the distributions that are in the folder."""
    digest = hashlib.sha256(build_bundle(facts, folder).read_bytes()).hexdigest()
    links = list_links(["uvx", f"kakite@{facts.version}"])
    texts = {
        "server.json": _format(describe_server(facts, bundle=digest)),
        "docker-mcp/kakite/server.yaml": format_catalogue_entry(facts, commit),
        "docker-mcp/kakite/tools.json": _format(list_catalogue_tools()),
        "acp/kakite/agent.json": _format(describe_agent(facts)),
        "links.md": "".join(f"[Add to {name}]({link})\n" for name, link in links.items()),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copyfile(ROOT / "packaging/acp/icon.svg", folder / "acp/kakite/icon.svg")


def list_files(folder: Path) -> Iterator[str]:
    """Yield each file with its hash, as `sha256sum` prints them."""
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        yield f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder)}"


def main(folder: Path, commit: str) -> None:
    """Make all of it anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build_distributions(folder.absolute())
    write_entries(load_facts(), folder, commit)
    print("\n".join(list_files(folder)))


def find_commit() -> str:
    """Return the commit that the checkout is at."""
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout.strip()


if __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["dist"]), sys.argv[2] if sys.argv[2:] else find_commit())
