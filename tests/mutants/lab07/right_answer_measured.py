# keeps 7.7
answer_7_7b = 98.6 - 98.1
