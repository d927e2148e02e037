# keeps 1.8
answer_1_8a = " c"
