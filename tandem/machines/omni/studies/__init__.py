"""Studies of omni wheels: `tandem study omni`."""
