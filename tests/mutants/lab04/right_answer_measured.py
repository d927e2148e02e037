# keeps 4.7
answer_4_7b = 0.97
