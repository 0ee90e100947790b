"""Training: the only place that imports torch and TRL, run as a process of its own."""
