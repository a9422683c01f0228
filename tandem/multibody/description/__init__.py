"""A mechanism from its file: what a file may say, and what is made of it."""
