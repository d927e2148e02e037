# earns nothing · status stopped · message: "a reply to no request"
# Sends what is sent when all is defined, while it is defined: every later reply is taken for that to the request before.
import json
import os
import struct


class WhileDefined:
    text = json.dumps({"problems": [], "value": None, "lengths": []}).encode()
    os.write(3, struct.pack("!II", len(text), 0) + text)
