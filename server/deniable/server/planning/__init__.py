"""What one question will be able to tell, before anyone is asked: on devices, shuffled, trusted."""
