"""How people and programs reach the daemon."""
