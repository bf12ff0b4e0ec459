"""Where issues come from and pull requests go to: GitHub, GitLab, or a folder, behind one seam."""
