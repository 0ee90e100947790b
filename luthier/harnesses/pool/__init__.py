"""Hand-written harnesses: the configuration pool, its variations, random graphs, programs to start from."""
