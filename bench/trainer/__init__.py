"""What training costs, measured."""
