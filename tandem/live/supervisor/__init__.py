"""The supervisor of a run: starts its processes, watches them, restarts what crashed, ends them in order."""
