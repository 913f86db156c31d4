"""JSON documents, written from the types of the product and read into them."""
