from collections.abc import Iterable

from faust import App
from mode import Service

class BootStrategy:
    app: App
    enable_kafka: bool
    enable_web: bool | None
    def server(self) -> Iterable[Service]: ...
