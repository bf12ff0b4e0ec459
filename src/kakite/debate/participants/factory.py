"""Creates the participants that the person's settings and environment name."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from kakite.debate.model import DebateError, ParticipantInfo
from kakite.debate.participants.base import CliParticipant, Participant, create_claude, create_codex
from kakite.debate.participants.cli_sandbox import CliAccess
from kakite.debate.participants.output_parsers import OutputFormat
from kakite.errors import UsageError
from kakite.installation import get_extra_install_command
from kakite.models.options import ModelOptions
from kakite.sandbox.egress.policy import build_policy

BUILT_IN: Mapping[str, Callable[..., CliParticipant]] = {"codex": create_codex, "claude": create_claude}
"""The participants that are known without any settings."""
TOKEN_VARIABLE = "KAKITE_DEBATE_TOKEN"  # noqa: S105 - a variable's name
"""The variable with the token of the runner."""
_FIELDS = {
    *("command", "arguments", "reader", "pass", "timeout", "silence", "aliases", "model", "url"),
    *("acp", "sandbox", "hosts", "login"),
}
_FAMILIES = ("claude", "gpt", "gemini", "gemma", "llama", "mistral", "qwen", "deepseek", "grok", "kimi")
"""What models call themselves, whatever the name under which a provider has them."""
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def create_participant(
    name: str,
    environ: Mapping[str, str],
    settings: Mapping[str, object] | None = None,
    options: Iterable[ModelOptions] = (),
) -> Participant:
    """Return the participant with that name.

    By ``KAKITE_DEBATE_NAME_URL`` in the environment it is asked at a runner, with the token from
    ``KAKITE_DEBATE_TOKEN``. Settings, all of them optional for ``codex`` and ``claude``:

    - ``command`` (a list, or a line as for a shell) and ``reader`` (``codex``, ``claude`` or ``text``), or
      ``acp`` (as ``command``, of an agent), ``model`` (``PROVIDER:NAME``) or ``url`` (of a runner);
    - ``arguments`` (as ``command``), for ``codex`` and ``claude``: added to our command line, which keeps all
      that makes it safe. A ``command`` stands in place of that line, so that only one of them may be given;
    - ``pass``: names of further variables that the program gets; ``aliases``: words that give it away;
    - ``timeout`` and ``silence``: seconds in all, and without output;
    - ``sandbox`` (yes or no): whether the program runs in a sandbox. Ours do, a ``command`` does not, unless
      that says so. ``hosts``: what it reaches in it; ``login``: the files of its login, below the home.

    ``options`` are added to the requests to a model, of those whose pattern fits it.

    Raises:
        DebateError: ``bad_participant``.
        ModelConfigError: there is no such model, or no key for it.
    """
    if not _NAME.fullmatch(name):
        raise _create_error(name, "a name is lower case letters and digits, with - between")
    given = dict(settings or {})
    if unknown := given.keys() - _FIELDS:
        raise _create_error(
            name, f"`{min(unknown)}` is not a setting; use one of {', '.join(sorted(_FIELDS))}"
        )
    variable = f"KAKITE_DEBATE_{name.upper().replace('-', '_')}_URL"
    url = environ.get(variable) or _read_string(name, given, "url")
    if url:
        from kakite.debate.participants.base import RemoteParticipant

        side = _build_info(name, given, environ)
        made = RemoteParticipant(side=side, url=url, token=environ.get(TOKEN_VARIABLE, ""))
        return replace(made, time=_read_seconds(name, given, "timeout") or made.time)
    if model := _read_string(name, given, "model"):
        return _create_model(name, model, given, environ, options)
    if command := _read_words(name, given, "acp"):
        return _create_acp(name, command, given, environ)
    return _create_cli(name, given, environ)


def _create_acp(
    name: str, command: tuple[str, ...], given: Mapping[str, object], environ: Mapping[str, str]
) -> Participant:
    if others := given.keys() & {"command", "arguments", "reader", "silence"}:
        raise _create_error(name, f"`{min(others)}` is not for an agent that is asked over `acp`")
    if importlib.util.find_spec("acp") is None:
        raise _create_error(name, f"`acp` needs a library: {get_extra_install_command('acp')}")
    from kakite.debate.participants.acp import AcpParticipant

    program = CliParticipant(
        side=_build_info(name, given, environ),
        command=command,
        passes=_read_words(name, given, "pass"),
        access=_read_access(name, given, environ, None),
        environ=environ,
    )
    return AcpParticipant(
        program=replace(program, time=_read_seconds(name, given, "timeout") or program.time)
    )


def _create_cli(name: str, given: Mapping[str, object], environ: Mapping[str, str]) -> Participant:
    command, arguments = _read_words(name, given, "command"), _read_words(name, given, "arguments")
    if command and arguments:
        raise _create_error(
            name, "`arguments` are added to our command line; with a `command`, write them there"
        )
    if arguments and name not in BUILT_IN:
        raise _create_error(
            name, f"`arguments` are for {' and '.join(BUILT_IN)}; here they belong into the `command`"
        )
    reader = given.get("reader", "text")
    if name in BUILT_IN:
        made = BUILT_IN[name](environ, command, arguments)
        reader = given.get("reader", made.reader)
    elif command:
        made = CliParticipant(side=ParticipantInfo(name=name), command=command, environ=environ)
    else:
        raise _create_error(name, "it needs a `command`, an `acp`, a `model` or a `url`")
    if reader not in get_args(OutputFormat):
        raise _create_error(name, f"`reader` is one of {', '.join(get_args(OutputFormat))}")
    return replace(
        made,
        side=_build_info(name, given, environ),
        access=_read_access(name, given, environ, made.access),
        reader=cast("OutputFormat", reader),
        passes=(*made.passes, *_read_words(name, given, "pass")),
        time=_read_seconds(name, given, "timeout") or made.time,
        silence=_read_seconds(name, given, "silence") or made.silence,
    )


def _read_access(
    name: str, given: Mapping[str, object], environ: Mapping[str, str], known: CliAccess | None
) -> CliAccess | None:
    """Return what the program gets in its sandbox; None where it is to run in none."""
    wanted = given.get("sandbox", known is not None)
    if not isinstance(wanted, bool):
        raise _create_error(name, "`sandbox` is true or false")
    hosts, login = _read_words(name, given, "hosts"), _read_words(name, given, "login")
    if not wanted:
        if hosts or login:
            raise _create_error(name, "`hosts` and `login` are for a sandbox: set `sandbox: true` as well")
        return None
    try:
        build_policy(hosts)
    except UsageError as error:
        raise _create_error(name, f"`hosts`: {error.message}") from error
    home = Path(environ.get("HOME", "/"))
    files = {str(path.relative_to(home)): path for path in _find_login(name, login, home)}
    known = known or CliAccess()
    return replace(known, hosts=(*known.hosts, *hosts), login={**known.login, **files})


def _find_login(name: str, login: Sequence[str], home: Path) -> list[Path]:
    paths = [home / each.removeprefix("~/") for each in login]
    if wrong := [each for each in paths if ".." in each.parts or not each.is_relative_to(home)]:
        raise _create_error(name, f"`login` names files of your home, and `{wrong[0]}` is none")
    return paths


def _create_model(
    name: str,
    model: str,
    given: Mapping[str, object],
    environ: Mapping[str, str],
    options: Iterable[ModelOptions],
) -> Participant:
    from kakite.debate.participants.model import ModelParticipant
    from kakite.models.factory import open_model

    side = _build_info(name, given, environ)
    made = ModelParticipant(
        side=replace(side, aliases=(*side.aliases, *_collect_model_aliases(model.casefold()))),
        model=open_model(model, environ=environ, options=options),
    )
    return replace(made, time=_read_seconds(name, given, "timeout") or made.time)


def _collect_model_aliases(model: str) -> tuple[str, ...]:
    """Return what gives a model away: its names, its family's, and a like participant's of ours."""
    words = {word for word in model.split(":", 1) if len(word) > 1}
    words |= {family for family in _FAMILIES if family in model}
    ours = [{name, *make({}).side.aliases} for name, make in BUILT_IN.items()]
    return tuple(sorted(words.union(*(each for each in ours if each & words))))


def _build_info(name: str, given: Mapping[str, object], environ: Mapping[str, str]) -> ParticipantInfo:
    known = BUILT_IN[name](environ).side.aliases if name in BUILT_IN else ()
    return ParticipantInfo(name=name, aliases=(*known, *_read_words(name, given, "aliases")))


def _read_words(name: str, given: Mapping[str, object], field: str) -> tuple[str, ...]:
    value = given.get(field, ())
    try:
        words = shlex.split(value) if isinstance(value, str) else list(cast("list[object]", value))
    except (ValueError, TypeError) as error:
        raise _create_error(name, f"`{field}` cannot be read: {error}") from error
    if not all(isinstance(word, str) for word in words):
        raise _create_error(name, f"`{field}` is a list of words")
    return tuple(cast("list[str]", words))


def _read_string(name: str, given: Mapping[str, object], field: str) -> str:
    value = given.get(field, "")
    if not isinstance(value, str):
        raise _create_error(name, f"`{field}` is a text")
    return value


def _read_seconds(name: str, given: Mapping[str, object], field: str) -> float | None:
    value = given.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 86_400:
        raise _create_error(name, f"`{field}` is a number of seconds")
    return float(value)


def _create_error(name: str, told: str) -> DebateError:
    return DebateError(f"participant `{name}`: {told}", code="bad_participant")
