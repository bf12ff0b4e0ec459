"""The page on which a person sees what the agent does, and answers what it asks: ``kakite agent web``."""
