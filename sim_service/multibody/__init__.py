"""Multibody dynamics: formulations a model may use, and references they are judged against. Knows no vehicle."""
