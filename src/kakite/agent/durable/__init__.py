"""Stories that outlive processes: told step by step, gone on with wherever a process ended. Knows nothing
of coding.
"""
