"""Methods: one file per published system."""
