"""What every engine of the store must answer: properties over generated recordings."""
