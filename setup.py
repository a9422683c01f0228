"""What pyproject.toml cannot say: a wheel has configs/, which stands beside the packages here, inside the package
`tandem`. So an installed `tandem drive` finds its configuration (tandem/console/shipped_configs.py).

With TANDEM_COMPILED, a folder that sync/compile/shipped.py made, the wheel has that too, is for this platform, and
requires the compiler that made it: beside another one all of it would be compiled again."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

COMPILED = os.environ.get("TANDEM_COMPILED")


class ForThisPlatform(Distribution):
    def has_ext_modules(self) -> bool:
        return COMPILED is not None

    def parse_config_files(self, *words: Any, **named: Any) -> None:
        super().parse_config_files(*words, **named)
        if COMPILED:
            made_with = json.loads((Path(COMPILED) / "files.json").read_text())["made_with"]
            self.install_requires += [f"{name}=={made_with[name]}" for name in ("numba", "llvmlite")]


class WithConfigs(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "tandem" / "configs"
            shutil.rmtree(target, ignore_errors=True)  # of a build before
            shutil.copytree("configs", target, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
            compiled = Path(self.build_lib) / "sync" / "compiled"
            shutil.rmtree(compiled, ignore_errors=True)
            if COMPILED:
                shutil.copytree(COMPILED, compiled)


setup(cmdclass={"build_py": WithConfigs}, distclass=ForThisPlatform)
