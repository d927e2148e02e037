# keeps 7.7
answer_7_7b = -0.2
