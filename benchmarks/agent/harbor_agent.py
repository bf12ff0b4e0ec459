"""Kakite as an agent of Harbor, which installs it in the container of each task.

    PYTHONPATH=benchmarks/agent harbor run -d terminal-bench@2.0 -a harbor_agent:KakiteAgent \
        -m anthropic/claude-sonnet-5-5 --ak wheel=dist/kakite-0.1.0-py3-none-any.whl

Harbor needs Python 3.12. Kakite's settings are variables: `--ae KAKITE_BUDGET_USD=3`.
"""

from __future__ import annotations

import json
from pathlib import Path

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor_commands import (
    FIND_PYTHON,
    HOME,
    TRAJECTORY,
    build_install_command,
    build_run_command,
    name_keys,
    read_usage,
)


class KakiteAgent(BaseInstalledAgent):
    capabilities = AgentCapabilities(atif=True)

    def __init__(self, *arguments, wheel=None, **named):
        """Take a wheel of Kakite from this machine; without one the package index's is installed."""
        self._wheel = Path(wheel) if wheel else None
        super().__init__(*arguments, **named)

    @staticmethod
    def name():
        return "kakite"

    def get_version_command(self):
        return f"{HOME}/bin/kakite --version"

    def parse_version(self, stdout):
        return stdout.split()[-1]

    async def install(self, environment):
        await self.ensure_system_dependencies(environment, ("git",))
        if (await environment.exec(command=FIND_PYTHON)).return_code:
            await self.ensure_system_dependencies(environment, ("curl", "ca_certificates"))
        requirement = f"kakite[agent]=={self._version}" if self._version else "kakite[agent]"
        if self._wheel:
            there = f"/installed-agent/{self._wheel.name}"
            await self.exec_as_root(environment, command="mkdir -p /installed-agent")
            await environment.upload_file(self._wheel, there)
            requirement = f"kakite[agent] @ file://{there}"
        await self.exec_as_root(environment, command=build_install_command(requirement))

    @with_prompt_template
    async def run(self, instruction, environment, context):  # noqa: ARG002 - as Harbor calls it
        if not self.model_name:
            raise ValueError("say which model: -m PROVIDER/NAME")
        keys = {name: self._get_env(name) for name in name_keys(self.model_name)}
        await self.exec_as_agent(
            environment,
            command=build_run_command(instruction, self.model_name),
            env={name: value for name, value in keys.items() if value},
        )

    def populate_context_post_run(self, context):
        file = self.logs_dir / TRAJECTORY
        if file.exists():
            for name, value in read_usage(json.loads(file.read_text("utf-8"))).items():
                setattr(context, name, value)
