# keeps 7.7
answer_7_7a = "c"
