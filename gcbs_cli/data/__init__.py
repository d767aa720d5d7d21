"""Opens paired embeddings (one file a format), checks them, and reads them as canonical unit rows."""
