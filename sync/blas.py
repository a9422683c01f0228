"""One thread for matrix products: matrices are small here, and threads for them would only spin beside the loop.

Each package of ours asks for it before it imports anything (its `__init__.py`), so that numpy finds it when it loads
its BLAS. Where a program has imported numpy before, BLAS stays in that program as its author has it, and what we start
has one thread; costs are times of threads, so that no other thread is counted in them.
"""

import os

_BLAS = ("OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")
_OTHERS = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")  # other libraries of a program heed them too: for processes of ours


def one_thread(own_process: bool = False) -> None:
    """Unless the environment says otherwise; inherited by every process that is started from here."""
    for setting in (*_BLAS, *_OTHERS) if own_process else _BLAS:
        os.environ.setdefault(setting, "1")
