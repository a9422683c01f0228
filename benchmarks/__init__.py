import sync  # noqa: F401  (one thread for BLAS, before numpy is imported)
