"""Scoring generators and comparing them: rows, statistics, runs of methods, results."""
