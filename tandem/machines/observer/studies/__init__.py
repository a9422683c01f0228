"""Twin experiments of observers: `tandem observe`."""
