"""The providers that can be named: their keys, addresses and libraries. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kakite.models.model import ModelConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Somebody who runs language models."""

    name: str
    variables: tuple[str, ...]
    """Environment variables for the key. The first one that is set counts."""
    note: str
    places: tuple[str, ...] = ()
    """Environment variables that say where credentials are, or whose. One of them does as well as a key."""
    more_secrets: tuple[str, ...] = ()
    """Environment variables with what belongs to a key."""
    needs_key: bool = True
    library: str = "openai"
    """The module that its protocol needs."""
    package: str = ""
    """What has that module, as one asks for it, where Kakite's extras do not bring it."""
    address: str = ""
    """Where it listens, if nobody says otherwise. Empty: its library knows, or it must be told."""
    needs_address: bool = False
    """Whether somebody must say the address: there is none for all."""
    takes_additions: bool = True
    """Whether its library sends further headers and fields."""
    address_variable: str = ""
    """Environment variable for the address; ``base_url`` goes before it."""
    flags_failures: bool = False
    """Whether its format marks a failed tool result by itself."""
    caches: bool = False
    """Whether what stays the same between two requests is cached only when the request asks for it."""

    def is_configured(self, environ: Mapping[str, str]) -> bool:
        """Say whether a model of it could be opened. Looks only whether a variable is there."""
        if self.needs_key:
            return any(environ.get(variable) for variable in (*self.variables, *self.places))
        return bool(self.address or environ.get(self.address_variable))

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """The environment variables whose values nobody may see."""
        return (*self.variables, *self.more_secrets)


PROVIDERS: Final[Mapping[str, Provider]] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            variables=("OPENAI_API_KEY",),
            note="OpenAI, or with --base-url any server that speaks its format: Ollama, vLLM, LM Studio",
            address="https://api.openai.com/v1",
            address_variable="OPENAI_BASE_URL",
        ),
        Provider(
            name="openai-responses",
            variables=("OPENAI_API_KEY",),
            note="OpenAI's Responses API; codex and pro models of `openai` take it by themselves",
            address="https://api.openai.com/v1",
            address_variable="OPENAI_BASE_URL",
        ),
        Provider(
            name="anthropic",
            variables=("ANTHROPIC_API_KEY",),
            note="Anthropic's Claude models",
            library="anthropic",
            address="https://api.anthropic.com",
            address_variable="ANTHROPIC_BASE_URL",
            flags_failures=True,
            caches=True,
        ),
        Provider(
            name="google",
            variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            note="Google's Gemini API",
            library="google.genai",
            flags_failures=True,
        ),
        Provider(
            name="vertex",
            variables=(),
            places=("GOOGLE_CLOUD_PROJECT",),
            note="Gemini and Claude models on Google Cloud, with its own credentials",
            library="google.genai",
            address_variable="GOOGLE_VERTEX_BASE_URL",
            flags_failures=True,
            caches=True,
        ),
        Provider(
            name="bedrock",
            variables=("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"),
            more_secrets=("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
            places=(
                "AWS_PROFILE",
                "AWS_WEB_IDENTITY_TOKEN_FILE",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            ),
            note="Amazon Bedrock",
            library="boto3",
            package="boto3>=1.42.63,<2",
            address_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            flags_failures=True,
            caches=True,
        ),
        Provider(
            name="azure",
            variables=("AZURE_OPENAI_API_KEY",),
            note="OpenAI's and others' models on Microsoft Azure; the name is that of the deployment",
            needs_address=True,
            address_variable="AZURE_OPENAI_ENDPOINT",
        ),
        Provider(
            name="ollama",
            variables=("OLLAMA_API_KEY",),
            note="models on this machine, served by Ollama",
            needs_key=False,
            address="http://127.0.0.1:11434/v1",
            address_variable="OLLAMA_BASE_URL",
        ),
        Provider(
            name="vllm",
            variables=("VLLM_API_KEY",),
            note="a vLLM server of your own",
            needs_key=False,
            needs_address=True,
            address_variable="VLLM_BASE_URL",
        ),
        Provider(
            name="openrouter", variables=("OPENROUTER_API_KEY",), note="many models, one key", caches=True
        ),
        Provider(name="deepseek", variables=("DEEPSEEK_API_KEY",), note="DeepSeek"),
        Provider(name="moonshotai", variables=("MOONSHOTAI_API_KEY",), note="Moonshot's Kimi models"),
        Provider(name="zai", variables=("ZAI_API_KEY",), note="Z.ai's GLM models"),
        Provider(
            name="alibaba", variables=("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"), note="Alibaba's Qwen models"
        ),
        Provider(name="together", variables=("TOGETHER_API_KEY",), note="Together AI"),
        Provider(name="fireworks", variables=("FIREWORKS_API_KEY",), note="Fireworks AI"),
        Provider(name="nebius", variables=("NEBIUS_API_KEY",), note="Nebius"),
        Provider(name="ovhcloud", variables=("OVHCLOUD_API_KEY",), note="OVHcloud"),
        Provider(name="cerebras", variables=("CEREBRAS_API_KEY",), note="Cerebras"),
        Provider(name="sambanova", variables=("SAMBANOVA_API_KEY",), note="SambaNova"),
        Provider(
            name="xai",
            variables=("XAI_API_KEY",),
            note="xAI's Grok models",
            address="https://api.x.ai/v1",
            address_variable="XAI_BASE_URL",
        ),
        Provider(
            name="groq",
            variables=("GROQ_API_KEY",),
            note="Groq",
            library="groq",
            package="groq>=0.25.0,<2",
            address_variable="GROQ_BASE_URL",
        ),
        Provider(
            name="mistral",
            variables=("MISTRAL_API_KEY",),
            note="Mistral",
            library="mistralai",
            package="mistralai>=3.1.0,<4",
            takes_additions=False,
        ),
        Provider(
            name="cohere",
            variables=("CO_API_KEY",),
            note="Cohere",
            library="cohere",
            package="cohere>=5.20.6,<8",
            takes_additions=False,
        ),
    )
}
"""The providers that can be named in ``PROVIDER:NAME``."""


def build_region_error() -> ModelConfigError:
    """Return the error of a provider whose region nobody has said."""
    return ModelConfigError(
        "Bedrock is asked in a region, and none is said",
        hint="set AWS_REGION, for example to us-east-1",
        code="model_no_region",
    )


def check_provider(provider: str, model: str = "") -> Provider:
    """Return the provider of a name.

    Raises:
        ModelConfigError: there is none; the hint has the nearest one.
    """
    if provider in PROVIDERS:
        return PROVIDERS[provider]
    from rapidfuzz import process  # only who mistypes comes here

    nearest = process.extractOne(provider.lower(), list(PROVIDERS), score_cutoff=60)
    name = nearest[0] + (f":{model}" if model else "") if nearest else ""
    meant = f"did you mean `{name}`? " if name else ""
    raise ModelConfigError(
        f"there is no provider `{provider}`",
        hint=f"{meant}the providers are {', '.join(PROVIDERS)}; "
        "a server of your own that speaks OpenAI's format is `openai:NAME` with --base-url",
        code="model_unknown_provider",
    )
