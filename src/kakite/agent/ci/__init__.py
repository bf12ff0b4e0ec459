"""What Kakite is asked to do by a job of GitHub Actions or GitLab CI, and who asks."""
