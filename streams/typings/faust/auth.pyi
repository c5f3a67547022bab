from ssl import SSLContext

class SASLCredentials:
    def __init__(
        self,
        *,
        username: str | None,
        password: str | None,
        mechanism: str | None,
        ssl_context: SSLContext | None,
    ) -> None: ...

class GSSAPICredentials:
    def __init__(
        self,
        *,
        kerberos_service_name: str,
        kerberos_domain_name: str | None,
        ssl_context: SSLContext | None,
    ) -> None: ...
