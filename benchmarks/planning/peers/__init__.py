"""Other ways to make batches, written anew from their papers, to compare with; each takes (x, y, seed)."""
