# keeps 10.7
answer_10_7a = " b "
