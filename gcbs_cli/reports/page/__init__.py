"""A report as one page that needs no network: figures as inline SVG, every name escaped."""
