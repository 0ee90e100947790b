"""Settings: `params.yaml` and a profile, read and checked."""
