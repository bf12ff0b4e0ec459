"""Runs mini-swe-agent with its own settings (`mini.yaml`) on a model's address, for `tokens.py`.

Its messages and its tool go out by OpenAI's client: with tools, litellm needs more than is installed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks GitHub for prices

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_path
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.utils.actions_toolcall import BASH_TOOL
from openai import OpenAI


class Direct(LitellmModel):
    def _query(self, messages, **_more):
        return client.chat.completions.create(model="scripted", messages=messages, tools=[BASH_TOOL])


url, task = sys.argv[1:]
config = yaml.safe_load(get_config_path("mini.yaml").read_text(encoding="utf-8"))
shape = {name: value for name, value in config["agent"].items() if name != "mode"}
model = {**config["model"], "cost_tracking": "ignore_errors"}
client = OpenAI(base_url=url, api_key="none")
with tempfile.TemporaryDirectory() as place:
    agent = DefaultAgent(
        Direct(model_name="openai/scripted", **model),
        LocalEnvironment(**config["environment"]),
        **{**shape, "output_path": Path(place, "trajectory.json")},
    )
    agent.run(task)
