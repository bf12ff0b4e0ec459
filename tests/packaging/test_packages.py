"""What is published beside the wheel, by the forms that registries have, and used as strangers use it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sys
import threading
import zipfile
from collections.abc import Generator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
import yaml
from mcp import Client, StdioServerParameters
from packaging.utils import canonicalize_name, parse_wheel_filename
from scripts import packages

from kakite import __version__
from kakite.cli.serve_options import parse_without_typer
from tests.cli.install.program import person
from tests.engines import ROOT
from tests.packaging.building import FRESH, UV, UVX, WITHIN
from tests.packaging.test_installing import asked

FACTS = packages.load_facts()
DATA = Path(__file__).parent / "data"
DIGEST = hashlib.sha256(b"").hexdigest()
COMMIT = "0" * 40
TEXT = {"type": "string", "minLength": 1}


def form(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def server_entry() -> dict[str, Any]:
    return dict(packages.describe_server(FACTS, bundle=DIGEST))


def find_package(kind: str) -> dict[str, Any]:
    (found,) = (each for each in server_entry()["packages"] if each["registryType"] == kind)
    return found


def test_the_entry_for_the_mcp_registry_has_its_form_and_this_version() -> None:
    entry = server_entry()
    jsonschema.validate(entry, form("server.schema.json"))
    assert entry["version"] == find_package("pypi")["version"] == __version__
    for kind in ("oci", "mcpb"):  # both have the version in their address
        assert "version" not in find_package(kind)
        assert __version__ in find_package(kind)["identifier"]
    assert find_package("mcpb")["fileSha256"] == DIGEST


@pytest.mark.parametrize(
    "change",
    [
        {"name": "kakite"},
        {"description": "x" * 101},
        {"packages": [{**find_package("pypi"), "version": "latest"}]},
        {"packages": [{"registryType": "pypi"}]},
        {"packages": [{**find_package("mcpb"), "fileSha256": "?"}]},
        {"packages": [{**find_package("pypi"), "packageArguments": [{"type": "positional"}]}]},
    ],
)
def test_what_breaks_the_form_of_the_mcp_registry_is_found(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**server_entry(), **change}, form("server.schema.json"))


def test_the_arguments_that_the_mcp_registry_tells_are_those_of_the_program(tmp_path: Path) -> None:
    positional, root = find_package("pypi")["packageArguments"]
    assert positional["value"] == "serve"
    options = parse_without_typer([root["name"], str(tmp_path)])
    assert options
    assert options.root == (str(tmp_path),)


def test_the_bundle_has_the_form_of_manifest_0_4() -> None:
    manifest = packages.describe_bundle(FACTS)
    jsonschema.validate(manifest, form("mcpb-manifest-v0.4.schema.json"))
    assert (manifest["manifest_version"], manifest["server"]["type"]) == ("0.4", "uv")
    assert manifest["server"]["entry_point"] in packages.list_bundle(FACTS, "any.whl")


@pytest.mark.parametrize(
    "change", [{"manifest_version": "0.3"}, {"author": {}}, {"server": {"type": "uv"}}, {"more": 1}]
)
def test_what_breaks_the_form_of_the_manifest_is_found(change: dict[str, Any]) -> None:
    manifest = {**packages.describe_bundle(FACTS), **change}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest, form("mcpb-manifest-v0.4.schema.json"))


@pytest.mark.parametrize("client", ["VS Code", "Cursor"])
@pytest.mark.parametrize("program", [["kakite"], ["uvx", f"kakite@{__version__}"]], ids=["own", "uvx"])
def test_a_link_says_what_install_writes(client: str, program: list[str], tmp_path: Path) -> None:
    who = person(tmp_path)
    name = client.lower().replace(" ", "")
    who.install(name, "project", steers=False)
    ((servers),) = json.loads((who.project / f".{name}/mcp.json").read_text(encoding="utf-8")).values()
    wanted = servers["kakite"]
    wanted["args"] = [*program[1:], *wanted["args"]]
    wanted["command"] = program[0]
    assert decode(packages.list_links(program)[client]) == wanted


def decode(link: str) -> Any:
    """Return what an editor reads in a link."""
    given = parse_qs(urlsplit(link).query, strict_parsing=True)
    assert given["name"] == ["kakite"]
    (config,) = given["config"]
    return json.loads(config if config.startswith("{") else base64.b64decode(config, validate=True))


def test_the_page_has_the_links() -> None:
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"\[Add to ([\w ]+)\]\((\S+)\)", page))
    assert found == packages.list_links(["kakite"])


def names(*required: str, **properties: Any) -> dict[str, Any]:
    """Return the form of a mapping that has these keys and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


CATALOGUE = names(
    *("name", "image", "type", "meta", "about", "source"),
    name={"type": "string", "pattern": "^[a-z0-9-]+$"},
    image=TEXT,
    type={"const": "server"},
    meta=names("category", "tags", category=TEXT, tags={"type": "array", "items": TEXT}),
    about=names(
        "title",
        "description",
        title={"type": "string", "pattern": "^(?!.*(?:MCP|Server))[A-Z]"},
        description=TEXT,
    ),
    source=names(
        *("project", "commit"),
        project={"type": "string", "pattern": "^https://github.com/"},
        commit={"type": "string", "pattern": "^[a-f0-9]{40}$"},
        dockerfile=TEXT,
        buildTarget=TEXT,
    ),
    run=names(volumes={"type": "array", "items": TEXT}, disableNetwork={"type": "boolean"}),
    config=names("description", "parameters", description=TEXT, parameters={"type": "object"}),
)
"""What Docker's catalogue checks of an entry, by its programs (github.com/docker/mcp-registry)."""


def test_the_entry_for_dockers_catalogue_has_its_form_and_names_files_that_are_there() -> None:
    entry = yaml.safe_load(packages.format_catalogue_entry(FACTS, COMMIT))
    jsonschema.validate(entry, CATALOGUE)
    recipe = (ROOT / entry["source"]["dockerfile"]).read_text(encoding="utf-8")
    assert f" AS {entry['source']['buildTarget']}\n" in recipe
    (volume,) = entry["run"]["volumes"]
    parameter, target = re.fullmatch(r"\{\{kakite\.(\w+)\}\}:(.+)", volume).groups()  # pyright: ignore[reportOptionalMemberAccess]
    assert parameter in entry["config"]["parameters"]["properties"]
    assert f"WORKDIR {target}\n" in recipe


@pytest.mark.parametrize(
    "change", [{"name": "Kakite"}, {"about": {"title": "MCP", "description": "x"}}, {"more": 1}]
)
def test_what_breaks_the_form_of_dockers_catalogue_is_found(change: dict[str, Any]) -> None:
    entry = yaml.safe_load(packages.format_catalogue_entry(FACTS, COMMIT))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**entry, **change}, CATALOGUE)


@pytest.mark.slow
def test_all_entries_list_the_tools_that_the_program_serves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kakite", "serve", "--root", str(tmp_path)]
    served = asked(command, {"HOME": str(tmp_path), "PATH": ""}, tmp_path)
    assert {tool["name"] for tool in packages.list_catalogue_tools()} == served
    assert {tool["name"] for tool in packages.describe_bundle(FACTS)["tools"]} == served


@pytest.fixture
def dist(wheels: Path, tmp_path: Path) -> Path:
    """What is published, from the wheel that the index has."""
    (wheel,) = wheels.glob("kakite-*.whl")
    folder = tmp_path / "dist"
    folder.mkdir()
    shutil.copy(wheel, folder)
    packages.write_entries(FACTS, folder, COMMIT)
    return folder


@FRESH
@pytest.mark.slow
@pytest.mark.anyio
async def test_a_desktop_client_starts_the_bundle_on_two_folders(
    dist: Path, fresh: Mapping[str, str], tmp_path: Path
) -> None:
    (bundle,) = dist.glob("*.mcpb")
    told = json.loads((dist / "server.json").read_text(encoding="utf-8"))["packages"]
    assert hashlib.sha256(bundle.read_bytes()).hexdigest() in {each.get("fileSha256") for each in told}
    place = tmp_path / "extension"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(place)
    # The folder with wheels has those of this Python and this system, and uv resolves for all that are named.
    project = place / "pyproject.toml"
    text = project.read_text(encoding="utf-8").replace(f'"{FACTS.requires_python}"', '"==3.11.*"')
    project.write_text(text.replace(", \"sys_platform == 'darwin'\"", ""), encoding="utf-8")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    started = json.loads((place / "manifest.json").read_text(encoding="utf-8"))["server"]["mcp_config"]
    words = [
        word
        for each in started["args"]
        for word in (map(str, folders) if each == "${user_config.folders}" else [each])
    ]
    parameters = StdioServerParameters(
        command=started["command"],
        args=[word.replace("${__dirname}", str(place)) for word in words],
        env={**fresh, "PATH": f"{UV.parent}:/usr/bin:/bin"},
        cwd=tmp_path,
    )
    call = {"command": "create", "path": str(folders[1] / "a.txt"), "file_text": "one\n"}
    async with Client(parameters, read_timeout_seconds=WITHIN) as client:
        result = await client.call_tool("text_editor", call)
        assert not result.is_error, result
        assert (await client.call_tool("text_editor", {**call, "path": str(tmp_path / "b.txt")})).is_error
    assert (folders[1] / "a.txt").read_text(encoding="utf-8") == "one\n"


@pytest.fixture
def index(wheels: Path, tmp_path: Path) -> Generator[str]:
    """The address of a package index on this machine that has the wheels, as the real one would list them."""
    pages: dict[str, list[str]] = {}
    for wheel in wheels.glob("*.whl"):
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        link = f'<a href="/files/{wheel.name}#sha256={digest}">{wheel.name}</a>'
        pages.setdefault(canonicalize_name(parse_wheel_filename(wheel.name)[0]), []).append(link)
    place = tmp_path / "index"
    for name, links in pages.items():
        (place / "simple" / name).mkdir(parents=True)
        (place / "simple" / name / "index.html").write_text("\n".join(links), encoding="utf-8")
    (place / "files").symlink_to(wheels)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(place)))
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()
    serving.join(WITHIN)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
        del format, args


@FRESH
@pytest.mark.slow
def test_uvx_kakite_serve_works_by_an_index_alone(
    index: str, fresh: Mapping[str, str], tmp_path: Path
) -> None:
    without = {"UV_OFFLINE", "UV_NO_INDEX", "UV_FIND_LINKS"}
    env = {name: value for name, value in fresh.items() if name not in without}
    command = [str(UVX), "kakite", "serve", "--root", str(tmp_path)]
    served = asked(command, {**env, "UV_DEFAULT_INDEX": index}, tmp_path)
    assert {"text_editor", "read_files", "find_in_files"} <= served
