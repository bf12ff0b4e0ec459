"""``kakite models``: lists the models that can be named now, with their windows and prices."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from kakite.models.catalog import KnownModel
    from kakite.models.providers import Provider

_SERVER_TIMEOUT = 3.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableServer:
    """A server of one's own that did not say what it has."""

    provider: str
    address: str
    reason: str


def models(
    provider: Annotated[
        str | None,
        typer.Argument(
            metavar="PROVIDER", help="Only the models of this provider, even if you have set no key for it."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document to standard output.")
    ] = False,
) -> None:
    """List the models that you can use now: of providers whose key is set, and of your own servers."""
    from kakite.cli.console import print_json
    from kakite.models.providers import check_provider

    if provider is not None:
        check_provider(provider)
    from kakite.cli.settings import load_settings

    settings = load_settings({})
    found, silent = find_models(provider, settings.base_url if settings.model.startswith("openai:") else "")
    if as_json:
        print_json(
            {"models": [asdict(each) for each in found], "unreachable": [asdict(each) for each in silent]}
        )
        return
    _print_table(found)
    for each in silent:
        typer.echo(f"{each.provider} at {each.address} did not answer: {each.reason}", err=True)
    if not found:
        hint = (
            "set a provider's key, or start your server; `kakite models PROVIDER` lists a provider's models"
        )
        typer.echo(f"no model can be used now; hint: {hint}", err=True)


def find_models(provider: str | None, base_url: str) -> tuple[list[KnownModel], list[UnreachableServer]]:
    """Return the models that can be used now, and the servers that did not say what they have.

    Args:
        provider: only its models, also without a key for it; None: those of all.
        base_url: the person's own server with OpenAI's format; empty: what the environment says.
    """
    from kakite.models.catalog import list_priced_models
    from kakite.models.providers import PROVIDERS

    servers = {name: _find_server(each, base_url, os.environ) for name, each in PROVIDERS.items()}
    configured = [
        name for name, each in PROVIDERS.items() if each.needs_key and each.is_configured(os.environ)
    ]
    wanted = [provider] if provider else configured
    found = [model for name in wanted if not servers[name] for model in list_priced_models(name)]
    silent: list[UnreachableServer] = []
    for name, address in servers.items():
        if not address or provider not in {None, name}:
            continue
        served = _list_served_models(PROVIDERS[name], address, os.environ)
        if isinstance(served, UnreachableServer):
            # Nobody has said that a server listens where it usually does.
            silent += [served] if provider or os.environ.get(PROVIDERS[name].address_variable) else []
        else:
            found += served
    return found, silent


def _find_server(provider: Provider, base_url: str, environ: Mapping[str, str]) -> str:
    """Return the address of the person's own server of a provider; empty: they have none."""
    own = environ.get(provider.address_variable, "") if provider.address_variable else ""
    if provider.name == "openai":
        return base_url or own
    return "" if provider.needs_key else own or provider.address


def _list_served_models(
    provider: Provider, address: str, environ: Mapping[str, str]
) -> list[KnownModel] | UnreachableServer:
    """Ask a server for what it has, as OpenAI's format does it."""
    import httpx2

    from kakite.models.catalog import KnownModel

    key = next((environ[name] for name in provider.variables if environ.get(name)), "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx2.get(f"{address.rstrip('/')}/models", headers=headers, timeout=_SERVER_TIMEOUT)
        answer.raise_for_status()
        names = sorted(_iter_names(answer.json()))
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError) as error:
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        return UnreachableServer(provider=provider.name, address=address, reason=reason)
    return [KnownModel(name=f"{provider.name}:{name}") for name in names]


def _iter_names(answer: object) -> Iterator[str]:
    listed = cast("dict[str, object]", answer).get("data") if isinstance(answer, dict) else None
    for each in cast("list[object]", listed) if isinstance(listed, list) else ():
        name = cast("dict[str, object]", each).get("id") if isinstance(each, dict) else None
        if isinstance(name, str) and name:
            yield name


def _print_table(found: list[KnownModel]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from kakite.terminal_text import escape_one_line

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold")
    for title in ("tokens", "$/M in", "$/M out"):
        table.add_column(title, justify="right")
    for each in found:
        window = f"{each.context_window:,}" if each.context_window else ""
        table.add_row(
            Text(escape_one_line(each.name)),
            window,
            _format_price(each.input_price),
            _format_price(each.output_price),
        )
    if found:
        Console(soft_wrap=False).print(table)


def _format_price(price: float | None) -> str:
    return "" if price is None else f"{price:,.2f}"
