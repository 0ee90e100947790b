"""Sandboxes: one file per fence, and the parts that they share."""
