"""The results of a run at its end: its figures, the verdict and exit code, and the page for people (html/)."""
