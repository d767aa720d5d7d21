"""Plans for more rows than one graph can hold: a coarse balanced partition, and a plan for each part."""
