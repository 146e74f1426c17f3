"""One command per thing a person wants: parse, call one function, print."""
