"""What the client of a server is made of: the wire, replies and refusals, dialects, the gate, choices."""
