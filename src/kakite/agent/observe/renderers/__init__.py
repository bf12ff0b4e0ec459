"""What shows the events of a run: JSON, HTML, Markdown, a terminal, and the dashboard's page."""
