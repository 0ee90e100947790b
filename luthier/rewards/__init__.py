"""Rewards: from a group of executions to one number each."""
