"""The parts of searches: proposers, credit, selectors, and the searches that join them."""
