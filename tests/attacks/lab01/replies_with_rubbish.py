# earns nothing · status graded · message: ""
# A harness whose every reply has the right form outside and none inside: numbers, arrays, strings where others belong.
import itertools
import sys


class Replies:
    rubbish = itertools.cycle(
        [
            {"value": {"numpy": {"tensor": "int64", "shape": [3], "blob": 0}}},
            {"value": {"scalar": "int64", "value": 2**70}},
            {"value": {"tensor": "bool", "shape": [0, 2**39, 2**39], "blob": 1}},
            {"error": {"kind": ["raised"], "bases": 3, "message": {"text": None}}},
            {"error": "raised"},
            {
                "value": {
                    "model": {"type": "Linear", "children": [[1, 2, 3]]},
                    "state": {"dict": []},
                }
            },
            {"value": {"list": [{"numpy": {"tensor": "int64", "shape": [3], "blob": 0}}] * 2}},
            {"value": {"dict": [[{"list": []}, 1]]}},
        ]
    )

    def handle(self, header, blobs):
        return dict(next(Replies.rubbish)), [bytes(24), b""]

    sys.modules["course_lib.student_code.harness"].Harness.handle = handle
