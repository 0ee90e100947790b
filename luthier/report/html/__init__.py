"""Markup, tables, charts and the frame of a page."""
