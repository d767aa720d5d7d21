"""A report as one page that needs no network: figures as inline SVG, every name escaped."""

from gcbs_cli.reports.page.page import report_page

__all__ = ["report_page"]
