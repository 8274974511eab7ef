"""What makes a release of the sources: ``make release``, and what the image leaves out."""
