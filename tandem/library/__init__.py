"""What `import tandem` gives, see docs/library.md."""
