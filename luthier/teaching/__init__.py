"""Teaching: from executed candidates to the rows that a generator imitates, with a count for every filter."""
