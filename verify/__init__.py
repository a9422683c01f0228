"""What tandem promises, measured: one registry (verify/promises.py), run by `python -m verify`."""

from pathlib import Path

import sync  # noqa: F401  (one thread for BLAS, before numpy is imported)

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs"
