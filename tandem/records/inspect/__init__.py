"""Looking at records: what is in one (info), what differs between two (compare), pictures (plot)."""
