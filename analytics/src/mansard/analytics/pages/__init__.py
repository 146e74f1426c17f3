"""What people see: figures, tables, words, and the pages that hold them."""
