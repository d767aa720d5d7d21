"""What this machine offers to gcbs, and what a plan would take on it."""

from gcbs_cli.doctor.forecast import PlanForecast, forecast_plan
from gcbs_cli.doctor.machine import Machine, examine

__all__ = ["Machine", "PlanForecast", "examine", "forecast_plan"]
