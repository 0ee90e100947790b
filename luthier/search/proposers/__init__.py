"""Who writes new instructions: an offline grammar, or a model."""
