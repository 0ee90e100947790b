"""DVC stages, one thin file each: read, one call into luthier, write."""
