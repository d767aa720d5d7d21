"""What a plan is worth: losses over all pairs and over the planned batches, their gap, its bounds, and warnings."""
