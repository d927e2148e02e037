# earns nothing · status stopped · message: "endless loop"
# Keeps the grader waiting for the definitions.
import time


class WhileDefined:
    while True:
        time.sleep(1)
