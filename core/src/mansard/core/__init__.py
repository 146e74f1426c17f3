"""The words every room shares: records, power modes, precisions, files, errors."""
