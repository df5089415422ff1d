"""What tokens cost: prices as people write them, the price of a model, and bills over usage."""
