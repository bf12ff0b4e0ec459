"""Finds the keys and addresses of providers, and opens their models.

Imports no provider and no pydantic-ai until a model is opened.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from kakite.installation import get_extra_install_command, get_install_command
from kakite.models.model import ModelConfigError
from kakite.models.options import ModelOptions, choose_options, expand_headers
from kakite.models.providers import PROVIDERS, Provider, build_region_error, check_provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic_ai.settings import ModelSettings

    from kakite.models.clients import ProviderAccess
    from kakite.models.model import Model


_BEARER_LIBRARIES: Final = frozenset({"anthropic", "groq", "openai"})
"""Those that send the key as `Authorization`."""
_PLACEHOLDER_KEY: Final = "no-key-needed"
"""Sent where the library insists on a key and the server does not."""


def open_model(
    spec: str,
    *,
    base_url: str | None = None,
    environ: Mapping[str, str],
    timeout: float = 600.0,
    max_retries: int = 4,
    max_output_tokens: int | None = None,
    options: Iterable[ModelOptions] = (),
) -> Model:
    """Open the model ``PROVIDER:NAME``. Nothing is sent yet.

    Args:
        spec: such as ``anthropic:claude-sonnet-5-5`` or ``openai:qwen3-coder``.
        base_url: the server to talk to instead of the provider's own. A key that the environment holds for
            the provider is sent there; where it holds none, a server of your own gets a placeholder.
        environ: where the keys are: the only source of keys there is.
        timeout: seconds that a provider may be silent; all repetitions together end after three times it.
        max_retries: how often a request is sent again when a provider is busy or the network failed.
        max_output_tokens: the most that one reply may be. By default what the model can.
        options: what is added to the requests, of those whose pattern fits the model.

    Raises:
        ModelConfigError: what the model needs is missing, or an option is not for it.
    """
    provider, name = _parse_spec(spec)
    _check_library(provider)
    chosen = choose_options(spec, options)
    headers, hidden = _check_options(provider, chosen, environ)
    # Here, not above: it takes the better part of a second, and only a run that asks a model needs it.
    from kakite.models.clients import ProviderAccess, open_provider_model
    from kakite.models.pydantic_ai_model import RemoteModel

    access = ProviderAccess(
        key=_find_key(provider, base_url, environ, headers),
        address=_find_address(provider, base_url, environ),
        environ=environ,
        timeout=timeout,
        max_retries=max_retries,
        options=replace(chosen, headers=headers),
    )
    return RemoteModel(
        spec,
        open_provider_model(provider, name, access),
        _build_settings(provider, access, max_output_tokens),
        secrets=frozenset(_collect_secrets(environ)) | hidden,
        flags_failures=provider.flags_failures,
        address=access.address,
        patient=max_retries > 1,
    )


def check_model(
    spec: str,
    *,
    base_url: str | None = None,
    environ: Mapping[str, str],
    options: Iterable[ModelOptions] = (),
) -> None:
    """Check that a model could be opened, without loading the library that talks to it.

    Raises:
        ModelConfigError: as ``open_model``.
    """
    provider, _ = _parse_spec(spec)
    _check_library(provider)
    headers, _ = _check_options(provider, choose_options(spec, options), environ)
    _find_key(provider, base_url, environ, headers)
    _find_address(provider, base_url, environ)


def find_address(spec: str, base_url: str) -> str:
    """Return the address of the server that has ``PROVIDER:NAME``; empty: only its library knows it.

    Raises:
        ModelConfigError: there is no such provider, or the address is none.
    """
    return _find_address(_parse_spec(spec)[0], base_url, {})


def find_key_variable(spec: str) -> str:
    """Return the variable that holds the key for ``PROVIDER:NAME``.

    Raises:
        ModelConfigError: there is no such provider.
    """
    provider = _parse_spec(spec)[0]
    return (*provider.variables, *provider.places)[0]


def _parse_spec(spec: str) -> tuple[Provider, str]:
    provider, colon, name = spec.partition(":")
    if not colon or not provider or not name:
        raise ModelConfigError(
            f"a model is named `PROVIDER:NAME`, not `{spec}`",
            hint=f"for example `anthropic:claude-sonnet-5-5`; the providers are {', '.join(PROVIDERS)}",
        )
    return check_provider(provider, name), name


def _check_library(provider: Provider) -> None:
    if not _is_installed("pydantic_ai"):
        raise ModelConfigError(
            "the libraries that talk to language models are not installed",
            hint=get_extra_install_command("agent"),
            code="model_no_library",
        )
    if not _is_installed(provider.library):
        raise ModelConfigError(
            f"`{provider.name}` needs the Python module `{provider.library}`, which is not installed",
            hint=get_install_command(provider.package),
            code="model_no_library",
        )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _find_key(
    provider: Provider, base_url: str | None, environ: Mapping[str, str], headers: Iterable[str]
) -> str:
    """Return the key; empty: its library finds credentials where the environment says that they are.

    ``headers`` are the names of what a person adds: an `Authorization` is sent in place of the key.
    """
    variables = (*provider.variables, *provider.places)
    own_server = base_url or environ.get(provider.address_variable)
    found = next((name for name in variables if environ.get(name, "").strip()), "")
    if found:
        _check_aws(provider, found, environ)
        return "" if found in provider.places else environ[found].strip()
    own_header = provider.library in _BEARER_LIBRARIES and "authorization" in map(str.lower, headers)
    if own_header or (own_server and provider.variables) or not provider.needs_key:
        return _PLACEHOLDER_KEY
    raise ModelConfigError(
        f"`{provider.name}` needs a key, and {_format_variables(variables)} not set",
        hint=f"set {' or '.join(variables)} in the environment",
        code="model_no_key",
    )


def _check_aws(provider: Provider, found: str, environ: Mapping[str, str]) -> None:
    """Refuse half of what AWS needs: the parts of a key, and a region, which a profile may have."""
    if provider.name != "bedrock":
        return
    if found == "AWS_ACCESS_KEY_ID" and not environ.get("AWS_SECRET_ACCESS_KEY", "").strip():
        raise ModelConfigError(
            "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not",
            hint="set AWS_SECRET_ACCESS_KEY too, or AWS_PROFILE instead of both",
            code="model_no_key",
        )
    regions = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE")
    if not any(environ.get(name, "").strip() for name in regions):
        raise build_region_error()


def _find_address(provider: Provider, base_url: str | None, environ: Mapping[str, str]) -> str:
    address = base_url or environ.get(provider.address_variable, "") or provider.address
    if not address and provider.needs_address:
        raise ModelConfigError(
            f"`{provider.name}` has an address of your own, and Kakite does not know it",
            hint=f"give --base-url, or set {provider.address_variable}",
            code="model_no_address",
        )
    parts = urlsplit(address)
    if (
        "@" in parts.netloc or parts.query or parts.fragment
    ):  # it is stored and shown, so it may hold no secret
        raise ModelConfigError(
            "the address of a model's server must not contain a password, `?` or `#`",
            hint=f"put the key in the variable {(*provider.variables, *provider.places)[0]}",
            code="model_bad_address",
        )
    if address and (parts.scheme not in {"http", "https"} or not parts.netloc):
        shown = f", not `{address}`" if "@" not in address else ""
        raise ModelConfigError(
            f"the address of a model's server begins with http:// or https://{shown}",
            hint="for example --base-url http://127.0.0.1:8080/v1",
            code="model_bad_address",
        )
    return address


def _format_variables(variables: tuple[str, ...]) -> str:
    return f"{variables[0]} is" if len(variables) == 1 else f"none of {', '.join(variables)} is"


def _collect_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    for provider in PROVIDERS.values():
        for variable in provider.secret_variables:
            if value := environ.get(variable, "").strip():
                yield value


def _build_settings(
    provider: Provider, access: ProviderAccess, max_output_tokens: int | None
) -> ModelSettings:
    settings: ModelSettings = {"request_timeout": 3 * access.timeout}
    if provider.name != "bedrock":  # its client has them
        settings["timeout"] = access.timeout
    if provider.name not in {"google", "vertex", "bedrock"}:
        settings["max_retries"] = access.max_retries
    if max_output_tokens is not None:
        settings["max_tokens"] = max_output_tokens
    if provider.caches:
        # The tools and the instructions, and then the conversation as it grows.
        settings["cache"] = True
    _add_options(settings, provider, access.options)
    return settings


def _check_options(
    provider: Provider, options: ModelOptions, environ: Mapping[str, str]
) -> tuple[dict[str, str], frozenset[str]]:
    """Return the headers as they are sent, and what of them must not be shown."""
    if not provider.takes_additions and (options.headers or options.body):
        raise ModelConfigError(
            f"the library of `{provider.name}` sends no further headers and no further fields",
            hint=f"leave `extra_headers` and `extra_body` out for models of `{provider.name}`",
            code="model_bad_option",
        )
    return expand_headers(options.headers, environ)


def _add_options(settings: ModelSettings, provider: Provider, options: ModelOptions) -> None:
    """Add what a person says of the requests, in the form that the provider's library takes it."""
    body = dict(options.body)
    if options.effort is not None:
        settings["thinking"] = False if options.effort == "off" else options.effort
    if options.headers:
        settings["extra_headers"] = dict(options.headers)
    if options.temperature is not None:
        if provider.library == "openai":
            # Not as a setting, which the library drops unsaid for some models: the provider is to say it.
            body["temperature"] = options.temperature
        else:
            settings["temperature"] = options.temperature
    match provider.name:
        case "google" | "vertex" if not options.models.startswith("vertex:claude"):
            pass  # their client has them
        case "bedrock" if body:
            cast("dict[str, object]", settings)["bedrock_additional_model_requests_fields"] = body
        case _ if body:
            settings["extra_body"] = body
        case _:
            pass
