# earns nothing · status stopped · message: "ended its process"
# Ends the process before a single function can be called.
import os


class WhileDefined:
    os._exit(0)
