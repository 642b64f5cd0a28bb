"""The report of a run: one page that explains itself, with nothing in it from outside."""

from p3iv.report.inputs import ReportError
from p3iv.report.plan_picture import draw_distribution
from p3iv.report.write import ReportResult, write_report

__all__ = ["ReportError", "ReportResult", "draw_distribution", "write_report"]
