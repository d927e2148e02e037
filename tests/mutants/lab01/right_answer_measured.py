# keeps 1.8
answer_1_8b = 1.08
