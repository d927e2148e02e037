# keeps 4.7
answer_4_7a = " b"
