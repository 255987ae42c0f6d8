"""`holdfast demo`: a tour that kills things in a home of its own, and checks what it says of what is left."""
