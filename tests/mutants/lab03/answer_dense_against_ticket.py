# loses 3.7 · message: "far from what five seeds give"
answer_3_7b = 4.1
