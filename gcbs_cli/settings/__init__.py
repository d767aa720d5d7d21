"""What each command can be asked for."""
