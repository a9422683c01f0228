"""General multibody dynamics: formulations that a model may build on. Nothing here knows a machine or a transport."""
