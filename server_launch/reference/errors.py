"""The one error that a client may see: a status and an OpenAI error body."""


class ApiError(Exception):
    """A refusal or failure that is told to the client. `param` names the field at fault, `code` is a word for programs."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    @property
    def kind(self) -> str:
        """OpenAI's `type`: whose fault it was."""
        return "invalid_request_error" if self.status < 500 else "server_error"

    def body(self) -> dict[str, dict[str, str | None]]:
        """The JSON object that both a refused request and an error event carry."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def unavailable(message: str) -> ApiError:
    """503: the server cannot take or finish the request, whatever it says."""
    return ApiError(503, message, code="service_unavailable")
