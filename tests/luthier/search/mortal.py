"""A target that dies in the middle of a search, as a killed process would."""


class KilledError(Exception):
    pass


class Mortal:
    """A target that dies before its n-th batch, once."""

    def __init__(self, inner, batch):
        self._inner, self._left = inner, batch
        self.name, self.fingerprint = inner.name, inner.fingerprint

    def complete(self, requests):
        self._left -= 1
        if self._left == 0:
            raise KilledError
        return self._inner.complete(requests)

    def count_tokens(self, request):
        return self._inner.count_tokens(request)
