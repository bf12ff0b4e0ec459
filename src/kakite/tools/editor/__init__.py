"""The text editor tool and the other tools that edit one file."""
