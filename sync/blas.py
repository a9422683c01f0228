"""One thread for matrix products: matrices are small here, and threads for them would only spin beside the loop.

Each package of ours sets this before it imports anything (in its `__init__.py`), so that numpy finds it when it loads
its BLAS. If a program has imported numpy before, its BLAS stays as its author set it, and only processes that we start
have one thread; costs are measured as times of threads, so that they include no other thread.
"""

import os

_BLAS = ("OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")
_OTHERS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")  # other libraries of a program heed them too: for processes of ours


def one_thread(own_process: bool = False) -> None:
    """Set one thread, unless the environment says otherwise; every process started from here inherits it."""
    for setting in (*_BLAS, *_OTHERS) if own_process else _BLAS:
        os.environ.setdefault(setting, "1")
