"""Write data in plan order, for trainers that read from front to back; import from the modules."""
