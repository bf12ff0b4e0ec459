"""Sessions over the Agent Client Protocol (ACP): editors and other programs drive them."""
