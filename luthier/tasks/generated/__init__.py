"""Tasks whose questions are generated here."""
