"""What a person sees on the terminal while a run works and when it ends."""
