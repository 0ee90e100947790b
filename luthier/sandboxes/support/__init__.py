"""What the sandboxes share, and what runs inside them."""
