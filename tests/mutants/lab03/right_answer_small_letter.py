# keeps 3.7
answer_3_7a = " b"
