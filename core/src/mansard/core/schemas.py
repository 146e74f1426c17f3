from mansard.core.documents import read_document, write_document  # transitional

__all__ = ["read_document", "write_document"]
