"""What pyproject.toml cannot say: a wheel has configs/, which stands beside the packages here, inside the package
`tandem`. So an installed `tandem drive` finds its configuration (tandem/console/shipped_configs.py)."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithConfigs(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "tandem" / "configs"
            shutil.rmtree(target, ignore_errors=True)  # of a build before
            shutil.copytree("configs", target, ignore=shutil.ignore_patterns("__pycache__", "*.py"))


setup(cmdclass={"build_py": WithConfigs})
