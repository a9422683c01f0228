"""tandem as a library: a machine to step, a record to read, a run to start, each by one call (docs/library.md).

    import tandem

    model = tandem.load_machine("configs/wall.toml")
    recorded = tandem.open_run("runs")
    with tandem.run("configs/wall.toml", seconds=10) as live: ...

What is listed in `__all__` is public and stays (tandem/library/stable.py); everything else may change. Nothing is
imported before it is asked for:
the command line has to answer at once, and until tandem/__main__.py runs Ctrl-C ends in a traceback of Python's.
"""

import os

# one thread for BLAS, as sync/blas.py has it, which is not imported yet: tandem/__main__.py has to come first
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

TYPE_CHECKING = False  # true for type checkers, which know the name; `typing` takes its time
if TYPE_CHECKING:
    from sim_service.contract.machine import Parameter, Quantity
    from sync.errors import Diverged, TandemError, UnknownName
    from tandem.ensembles.identify import identify
    from tandem.ensembles.sweep import sweep
    from tandem.ensembles.validate import validate
    from tandem.library.batch import Batch, batch
    from tandem.library.gpu_batch import GpuBatch
    from tandem.library.live import Live, run
    from tandem.library.recorded import Recorded, open_run
    from tandem.library.vector_env import vector_env
    from tandem.offline.model import Linear, Model, load_machine
    from tandem.offline.table import Table
    from tandem.reports.panels import Plot

    __version__: str

_PLACES = {
    "Batch": "tandem.library.batch",
    "Diverged": "sync.errors",
    "GpuBatch": "tandem.library.gpu_batch",
    "Linear": "tandem.offline.model",
    "Live": "tandem.library.live",
    "Model": "tandem.offline.model",
    "Parameter": "sim_service.contract.machine",
    "Plot": "tandem.reports.panels",
    "Quantity": "sim_service.contract.machine",
    "Recorded": "tandem.library.recorded",
    "Table": "tandem.offline.table",
    "TandemError": "sync.errors",
    "UnknownName": "sync.errors",
    "batch": "tandem.library.batch",
    "identify": "tandem.ensembles.identify",
    "load_machine": "tandem.offline.model",
    "open_run": "tandem.library.recorded",
    "run": "tandem.library.live",
    "sweep": "tandem.ensembles.sweep",
    "validate": "tandem.ensembles.validate",
    "vector_env": "tandem.library.vector_env",
}

__all__ = [
    "Batch",
    "Diverged",
    "GpuBatch",
    "Linear",
    "Live",
    "Model",
    "Parameter",
    "Plot",
    "Quantity",
    "Recorded",
    "Table",
    "TandemError",
    "UnknownName",
    "__version__",
    "batch",
    "identify",
    "load_machine",
    "open_run",
    "run",
    "sweep",
    "validate",
    "vector_env",
]  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        found: str = import_module("sync.config.extras").installed_version()
        return found
    if name not in _PLACES:
        raise AttributeError(f"module 'tandem' has no attribute {name!r}; it has {', '.join(__all__)}", name=name)
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
