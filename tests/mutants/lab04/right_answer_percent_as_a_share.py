# keeps 4.7
answer_4_7b = 98 / 100
