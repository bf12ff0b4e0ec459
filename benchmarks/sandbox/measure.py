"""What a sandbox costs: making it, a command in it, ending it, beside the plain engine and no sandbox at all.

    python benchmarks/sandbox/measure.py [--json FILE] [--rounds N] [--kinds bubblewrap,container,local]
                                         [--engine podman] [--image IMAGE]

All take turns within each round, so that whatever else the machine does meets all of them: look at the
ratios, not at the milliseconds. ``plain bwrap`` is `bwrap` with all namespaces, the whole system to be read,
and nothing kept from programs. ``plain engine`` is `docker run -d IMAGE sleep`, `docker exec … true` and
`docker rm -f` with the image that the sandbox uses; ``no sandbox`` starts `true` itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

from kakite.sandbox import list_backends, open_sandbox
from kakite.sandbox.backends.images import get_reference

TRUE = ("/bin/true",)
COMMANDS = 5  # in each round: the first after a start is not like the others
Times = dict[str, dict[str, list[float]]]


async def timed(act: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


async def program(*argv: str) -> None:
    child = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, told = await child.communicate()
    if child.returncode:
        raise SystemExit(f"`{' '.join(argv)}` failed: {told.decode(errors='replace')}")


async def of_sandbox(
    kind: str, folder: Path, environ: Mapping[str, str], took: dict[str, list[float]]
) -> None:
    sandbox = open_sandbox(kind, folder, environ=environ)
    took["start"].append(await timed(sandbox.prepare))
    for _ in range(COMMANDS):
        took["exec"].append(await timed(lambda: sandbox.exec(TRUE, timeout=60)))
    took["end"].append(await timed(sandbox.destroy))


async def of_engine(engine: str, image: str, took: dict[str, list[float]]) -> None:
    name = f"kakite-benchmark-{uuid.uuid4().hex[:12]}"
    limits = ("--network", "none", "--entrypoint", "/bin/sleep")
    run = (engine, "run", "--detach", "--rm", "--name", name, *limits, image, "600")
    took["start"].append(await timed(lambda: program(*run)))
    for _ in range(COMMANDS):
        took["exec"].append(await timed(lambda: program(engine, "exec", name, *TRUE)))
    took["end"].append(await timed(lambda: program(engine, "rm", "--force", name)))


def only(engine: str, folder: Path) -> dict[str, str]:
    """Return an environment in which this engine is the only one."""
    if engine == "docker":  # the first that is looked for
        return dict(os.environ)
    program = shutil.which(engine)
    if program is None:
        raise SystemExit(f"`{engine}` was not found")
    (folder / "bin").mkdir()
    (folder / "bin" / engine).symlink_to(program)
    return {**os.environ, "PATH": f"{folder}/bin:/usr/sbin:/sbin"}


async def of_bwrap(took: dict[str, list[float]]) -> None:
    bwrap = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    for _ in range(COMMANDS):
        took["exec"].append(await timed(lambda: program(*bwrap, *TRUE)))


async def of_nothing(took: dict[str, list[float]]) -> None:
    for _ in range(COMMANDS):
        took["exec"].append(await timed(lambda: program(*TRUE)))


async def measure(names: list[str], engine: str, image: str, rounds: int) -> Times:
    columns = [*names, "no sandbox", *(PLAIN[kind] for kind in ("bubblewrap", "container") if kind in names)]
    took: Times = {column: {"start": [], "exec": [], "end": []} for column in columns}
    with tempfile.TemporaryDirectory(prefix="kakite-") as place:
        environ = only(engine, Path(place))
        for number in range(rounds):
            for kind in names:
                await of_sandbox(
                    kind,
                    Path(place, f"{kind}-{number}"),
                    environ if kind == "container" else os.environ,
                    took[kind],
                )
            if "container" in names:
                await of_engine(engine, image, took["plain engine"])
            if "bubblewrap" in names:
                await of_bwrap(took["plain bwrap"])
            await of_nothing(took["no sandbox"])
    return took


def medians(took: Times) -> dict[str, dict[str, float]]:
    return {
        column: {act: statistics.median(times) * 1000 for act, times in acts.items() if times}
        for column, acts in took.items()
    }


def ratios(middle: dict[str, dict[str, float]]) -> dict[str, float]:
    """How many times the time of the plain program each act of ours takes; bubblewrap's ms over none."""
    found: dict[str, float] = {}
    if "container" in middle:
        plain = middle["plain engine"]
        found |= {f"container {act} / plain engine": middle["container"][act] / plain[act] for act in plain}
    if "bubblewrap" in middle:
        extra = middle["bubblewrap"]["exec"] - middle["no sandbox"]["exec"]
        found["bubblewrap exec, ms over no sandbox"] = extra
        found["bubblewrap exec / plain bwrap"] = middle["bubblewrap"]["exec"] / middle["plain bwrap"]["exec"]
    return found


PLAIN = {"bubblewrap": "plain bwrap", "container": "plain engine", "local": "no sandbox"}


def figures_of(middle: dict[str, dict[str, float]]) -> Iterator[Figure]:
    for column, acts in middle.items():
        beside = PLAIN.get(column, "")
        for act, took in acts.items():
            base = middle.get(beside, {}).get(act)
            ratio = took / base if base else None
            yield Figure("sandboxes", column, act, took, "ms", beside if ratio else "", ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kinds", default="", help="default: all that work here")
    parser.add_argument("--engine", default="docker", help="docker or podman")
    parser.add_argument("--image", default="", help="the image of `plain engine`; default: the sandbox's")
    options = parser.parse_args()
    here = [kind.name for kind in asyncio.run(list_backends()) if kind.available]
    names = options.kinds.split(",") if options.kinds else here
    middle = medians(asyncio.run(measure(names, options.engine, options.image or image(), options.rounds)))
    load = os.getloadavg()[0]
    if options.json:
        write(options.json, list(figures_of(middle)), rounds=options.rounds)
    print(f"medians of {options.rounds} rounds, load {load:.1f}, {os.cpu_count()} processors\n")
    print(f"{'ms':14}{'start':>10}{'exec':>10}{'end':>10}")
    for column, acts in middle.items():
        print(f"{column:14}" + "".join(f"{acts.get(act, 0):10.1f}" for act in ("start", "exec", "end")))
    print()
    for name, ratio in ratios(middle).items():
        print(f"{name}: {ratio:.2f}")


def image() -> str:
    return os.environ.get("KAKITE_IMAGE", get_reference("base"))


if __name__ == "__main__":
    sys.exit(main())
