"""What passes that set number formats share: which node gets which format, and what replaces the node."""
