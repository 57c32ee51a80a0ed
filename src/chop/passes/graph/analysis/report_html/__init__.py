"""One page that shows all that is known of a graph."""

from chop.passes.graph.analysis.report_html.report_html import report_html_analysis_pass

__all__ = ["report_html_analysis_pass"]
