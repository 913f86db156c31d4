"""What the pages share: the header, links, empty states, the matrix, small pieces of HTML."""
