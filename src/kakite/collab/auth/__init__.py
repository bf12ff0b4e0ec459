"""Who may see and change which document."""
